"""Estimates beside what is there: tensors, files, caches of tiny models."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3Config

from agon.config import AdapterSettings, TrainSettings
from agon.learner.learner import Learner
from agon.learner.packing import Sample, make_microbatches
from agon.learner.runner import Runner
from agon.model.base import BaseIdentity, wrap_model
from agon.model.pair import AdapterPair
from agon.recipe import settings_from
from agon.records import Attempt, Completion, Match, Problem, Prompt, Request, Verdict
from agon.rollout.cache import DecodeCache
from agon.rollout.torch_engine import TorchEngine
from agon.runs import write_matches
from agon.train.footprint import estimate_disk, estimate_memory, numbers_per_token, shape_of

SIZES = {
    "vocab_size": 40,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "eos_token_id": 2,
    "pad_token_id": 2,
}
SMALL = settings_from(
    {
        "adapter": {"rank": 4, "init": "standard"},
        "task": {"max_prompt_tokens": 3},
        "rollout": {"max_draft_tokens": 97, "max_challenge_tokens": 50, "max_summary_tokens": 40, "max_rows": 8},
        "train": {"problems_per_step": 4, "group_size": 2, "steps": 30, "max_logprob_gap": 100.0},
    }
)


def _shape(config: Any):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    return shape_of(model, config, SMALL.adapter)


def _pair(config: Any, dtype: torch.dtype) -> AdapterPair:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    base = wrap_model(model, None, identity=BaseIdentity("tiny", "tiny"))
    return AdapterPair.create(base, AdapterSettings(rank=4, init="standard"), seed=0)


@pytest.fixture(scope="module")
def pair():
    return _pair(LlamaConfig(**SIZES), torch.float32)


@pytest.fixture(scope="module")
def shape():
    return _shape(LlamaConfig(**SIZES))


def test_weights_and_moments_are_counted_without_a_model(pair, shape):
    estimate = estimate_memory(shape, SMALL, device="cpu", width=4, engine="torch")
    assert estimate.base == 4 * pair.base.num_parameters
    adapted = sum(site.weight.numel() for site in pair.sites)
    assert estimate.engine == 2 * 4 * adapted  # merged copies of both are kept
    learner = Learner(pair, SMALL.train, temperature=1.0)
    for adapter in "AB":
        learner.update(adapter, [Sample((2, 3), (4, 5, 1), (-1.0,) * 3, 1.0)], step=0, total_steps=9)
    held = sum(parameter.nbytes for adapter in "AB" for parameter in pair.parameters(adapter))
    held += sum(tensor.nbytes for state in learner.state().values() for tensor in state.values())
    # Besides: the gradient of one adapter, and as much for the optimiser to compute in.
    assert held == pytest.approx(estimate.adapters * 6 / 8, rel=0.01)


@pytest.mark.parametrize(
    ("kind", "dtype", "length"),
    [
        (LlamaConfig, torch.float32, 64),
        (LlamaConfig, torch.bfloat16, 300),
        (Qwen3Config, torch.float32, 300),
        (Qwen3Config, torch.bfloat16, 64),
    ],
)
def test_what_layers_leave_for_the_backward_pass_is_as_estimated(kind, dtype, length):
    config = kind(**SIZES)
    taken, num_tokens = _saved_bytes(_pair(config, dtype), length)
    width = torch.finfo(dtype).bits // 8
    layer = numbers_per_token(_shape(config), longest=length, is_float32=width == 4, keeps_scores=True)
    estimated = num_tokens * width * (layer * SIZES["num_hidden_layers"] + 2 * SIZES["hidden_size"])
    assert estimated == pytest.approx(taken, rel=0.05)


def _saved_bytes(pair: AdapterPair, length: int) -> tuple[int, int]:
    """Return the bytes of activations that a forward pass keeps, and its tokens."""
    runner = Runner(pair, TrainSettings(), temperature=1.0)
    samples = [Sample((1, 2), tuple(3 + i % 30 for i in range(length - 1)), (-1.0,) * (length - 1), 1.0)] * 3
    (batch,) = make_microbatches(samples, range(3), budget=10**6, is_packed=True, device=pair.base.device)
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with runner.training("A", num_tokens=1) as model:
        weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
        for site in pair.sites:
            held = [value for value in site.layer.forward.args if isinstance(value, torch.Tensor)]
            weights |= {tensor.untyped_storage().data_ptr() for tensor in held}
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            out = runner.score(model, batch)
    assert out.logprobs.requires_grad
    storages = [tensor.untyped_storage() for place, tensor in kept.items() if place not in weights]
    return sum(storage.nbytes() for storage in storages), batch.input_ids.numel()


def test_the_cache_of_the_torch_engine_takes_what_was_estimated(pair, shape, monkeypatch):
    sizes: list[int] = []
    end_step = DecodeCache.end_step

    def noted(self):
        end_step(self)
        sizes.append(sum(states.nbytes for _, layer in self._slot_layers for states in layer._room()))

    monkeypatch.setattr(DecodeCache, "end_step", noted)
    requests = [Request((3, 4, 5), "A", 97, seed=seed, temperature=3.0) for seed in range(8)]
    done = TorchEngine(pair, max_rows=8).generate(requests)
    assert max(completion.num_tokens for completion in done) > 60
    estimate = estimate_memory(shape, SMALL, device="cpu", width=4, engine="torch").cache
    assert 0.6 * estimate < max(sizes) <= estimate


def test_matches_take_about_what_was_estimated_a_token(tmp_path, shape):
    rng = random.Random(0)
    words = ["so", "the", "sum", "of", "four", "numbers", "is", "then", "we", "try", "again", "*", "+", "12"]
    matches = []
    for sample in range(12):
        tokens = tuple(rng.randrange(150_000) for _ in range(600))
        logprobs = tuple(-float(torch.tensor(rng.expovariate(2.0))) for _ in tokens)
        text = " ".join(rng.choice(words) for _ in tokens)
        completion = Completion(tokens, logprobs, text, "stop", "A", 3)
        attempt = Attempt(
            "drafter", "A", Prompt((5, 6, 7), "q"), completion, Verdict("wrong", 0.0, "no", "1", "2"), 1.0
        )
        matches.append(Match(Problem("p", "q", "2", "t", "exact"), sample, (attempt,)))
    write_matches(tmp_path / "m.jsonl.gz", matches)
    own = SMALL.model_copy(update={"train": SMALL.train.model_copy(update={"steps": 1})})
    estimate = estimate_disk(shape, own, rollouts=12, tokens=12 * 600).matches
    assert (tmp_path / "m.jsonl.gz").stat().st_size == pytest.approx(estimate, rel=0.25)


def test_checkpoints_are_those_that_are_kept_and_one_that_is_written(shape):
    def kept(**train):
        own = SMALL.model_copy(update={"train": SMALL.train.model_copy(update=train)})
        return estimate_disk(shape, own, rollouts=100, tokens=10_000)

    one = kept(steps=10, save_every=20).checkpoints  # at the end only
    assert kept(steps=30, save_every=20).checkpoints == 2 * one
    assert kept(steps=900, save_every=20, keep_checkpoints=2).checkpoints == 3 * one
    assert kept(max_matches_gb=1e-6).matches == 1000


def test_a_checkpoint_of_one_adapter_that_learns_holds_the_moments_of_one(shape):
    def one(method):
        own = SMALL.model_copy(update={"train": SMALL.train.model_copy(update={"method": method, "steps": 1})})
        return estimate_disk(shape, own, rollouts=100, tokens=10_000).checkpoints

    # two moments in float32, 2 * 4 bytes a number, are what the second optimiser would add, but for the headers of its tensors
    added = one("agon") - one("grpo")
    assert 8 * shape.num_adapter < added < 8 * shape.num_adapter + 2 * 400 * shape.num_tensors


def test_prompts_are_no_longer_than_what_the_context_leaves_them(shape):
    caps = {"max_draft_tokens": 60, "max_challenge_tokens": 80}
    own = SMALL.model_copy(
        update={
            "train": SMALL.train.model_copy(update={"steps": 1}),
            "task": SMALL.task.model_copy(update={"max_prompt_tokens": 64}),
            "rollout": SMALL.rollout.model_copy(update=caps),
        }
    )

    def matches(context):
        return estimate_disk(replace(shape, context_length=context), own, rollouts=400, tokens=0).matches

    # 400 rollouts, a quarter of the prompt's tokens, 3 bytes each: a context of 100 leaves 40, one of 61 leaves 1
    assert matches(100) - matches(61) == 3 * 400 * (40 - 1) // 4
    assert matches(200) - matches(61) == 3 * 400 * (64 - 1) // 4


def test_sampling_and_learning_take_turns_unless_the_cache_stays(shape):
    torch_, vllm = (
        replace(estimate_memory(shape, SMALL, device="cpu", width=4, engine=engine), engine=0, cache=50, microbatch=70)
        for engine in ("torch", "vllm")
    )
    assert (torch_.peak - torch_.least, vllm.peak - vllm.least) == (70, 120)


def test_recomputed_layers_keep_their_input_alone(shape):
    def microbatch(is_on):
        train = SMALL.train.model_copy(update={"gradient_checkpointing": is_on, "logprob_chunk": 1})
        own = SMALL.model_copy(update={"train": train})
        return estimate_memory(shape, own, device="cpu", width=4, engine="torch").microbatch

    # A stream of 4 x 2 rows of 100 tokens; a layer leaves 4 x 64 + 2 x 64 + 2 x 32 + 4 x 100 + 4 x 160 = 1,488 numbers.
    assert microbatch(False) == 800 * (3 * 1488 + 2 * 64) * 4 + 40 * 18
    assert microbatch(True) == 800 * (3 * 64 + 1488 + 2 * 64) * 4 + 40 * 18
