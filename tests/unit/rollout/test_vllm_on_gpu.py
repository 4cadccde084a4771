"""The engine against the real vLLM. One server: a process can hold no second."""

from __future__ import annotations

import importlib.util
import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from transformers import AutoModelForCausalLM
from transformers.models.qwen3 import Qwen3Config

from agon.config import AdapterSettings
from agon.model.base import BaseIdentity, wrap_model
from agon.model.lora import merged_weights
from agon.model.pair import AdapterPair
from agon.records import Request
from agon.rollout.vllm_adapters import SwappedAdapters, VersionedAdapters
from agon.rollout.vllm_engine import VllmEngine
from agon.rollout.vllm_options import LoraRoom, ServerOptions
from agon.rollout.vllm_server import start_server
from agon.rollout.vllm_stepping import VllmSteppingEngine
from agon.rollout.vllm_weights import FusedWeights, SwappedWeights

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="needs vLLM"),
    # torch's and vLLM's own, of which the tests of this project's code would otherwise fail.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A small Qwen3, a pair on it, a server with room for both adapters, and the fused weights."""
    folder = tmp_path_factory.mktemp("model")
    config = Qwen3Config(
        vocab_size=512,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=2048,
        initializer_range=0.08,
        eos_token_id=1,
    )
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).cuda()
    base = wrap_model(model, None, identity=BaseIdentity("small", "small"))
    options = ServerOptions(folder, 16, 2048, 1 << 28, 0.2, LoraRoom(8, 2))
    server = start_server(options, dtype=torch.bfloat16, stop_ids=base.stop_ids)
    fused = FusedWeights(server.model, base)
    pair = AdapterPair.create(base, AdapterSettings(rank=8, init="standard"), seed=0)
    with torch.no_grad():
        for name in pair.names:
            for site in pair.sites:
                site.up(name).normal_(std=0.05)
    yield server, fused, pair
    server.close()


def _engine(served, mode):
    server, fused, pair = served
    if mode == "swapped":
        return VllmEngine(server, pair, SwappedAdapters(server, SwappedWeights(fused, pair.sites)))
    SwappedWeights(fused, pair.sites).write(None)
    return VllmEngine(server, pair, VersionedAdapters(server, fused, pair, room=2))


@pytest.mark.parametrize("mode", ["swapped", "multi-lora"])
def test_logprobs_are_those_of_the_learner_and_seeds_repeat(served, mode):
    pair = served[2]
    engine = _engine(served, mode)
    requests = [Request(tuple(range(5 + i, 40 + i)), ("A", "B")[i % 2], 24, seed=i) for i in range(8)]
    completions = engine.generate(requests)
    assert [c.token_ids for c in engine.generate(requests)] == [c.token_ids for c in completions]
    for request, completion in zip(requests, completions, strict=True):
        ids = torch.tensor([[*request.prompt_ids, *completion.token_ids]], device="cuda")
        with pair.sampling(request.adapter) as model, torch.no_grad():
            logits = model(input_ids=ids, use_cache=False).logits[0, len(request.prompt_ids) - 1 : -1].float()
        own = torch.log_softmax(logits, -1).gather(1, ids[0, len(request.prompt_ids) :, None])[:, 0].cpu()
        assert float((own - torch.tensor(completion.logprobs)).abs().mean()) < 0.1
    assert engine.effects["planted"].slope == pytest.approx(1.0, abs=0.1)


def test_a_thousand_swaps_leave_no_trace(served):
    _, fused, pair = served
    weights = SwappedWeights(fused, pair.sites)
    for number in range(1000):
        weights.write(("A", "B", None)[number % 3])
    weights.write("A")
    for site, merged in zip(pair.sites, merged_weights(pair.sites, "A"), strict=True):
        assert torch.equal(fused.view(f"{site.path}.weight"), merged)
    weights.write(None)
    assert all(torch.equal(fused.view(f"{site.path}.weight"), site.weight) for site in pair.sites)


def test_a_challenge_joins_while_drafts_run(served):
    engine = _engine(served, "multi-lora")
    drafts = [Request(tuple(range(5, 25)), "A", 4 + 40 * i, seed=i) for i in range(3)]
    completions = engine.grow(
        drafts,
        lambda index, completion: [Request(completion.token_ids, "B", 4, seed=50 + index)] if index < 3 else [],
        adapters=("A", "B"),
    )
    assert [completion.adapter for completion in completions] == ["A"] * 3 + ["B"] * 3


def test_requests_that_join_and_leave_step_by_step_get_what_a_batch_gives_them(served):
    engine = _engine(served, "multi-lora")
    # The server still knows the ids of the tests before, and would take them for weights that it has.
    engine._adapters._ids = itertools.count(200)
    requests = [Request(tuple(range(5 + i, 40 + i)), ("A", "B", None)[i % 3], 24, seed=i) for i in range(9)]
    wanted = engine.generate(requests)
    stepping = VllmSteppingEngine(engine)
    told, ended = {}, {}

    def take_step():
        for progress in stepping.step():
            ids, logprobs = told.setdefault(progress.key, ([], []))
            ids += progress.token_ids
            logprobs += progress.logprobs
            if progress.completion is not None:
                ended[progress.key] = progress.completion

    def drive():
        keys = [stepping.add(request) for request in requests[:5]]
        for _ in range(8):
            take_step()
        stepping.cancel(keys[1])
        keys += [stepping.add(request) for request in requests[5:]]
        while stepping.num_open:
            take_step()
        return keys

    # A server steps in another thread than the one that started vLLM.
    with ThreadPoolExecutor(1) as thread:
        keys = thread.submit(drive).result()
    assert ended.keys() == {*keys} - {keys[1]}
    num_same = 0
    for key, completion in ended.items():
        assert told[key] == (list(completion.token_ids), list(completion.logprobs))
        want = wanted[keys.index(key)]
        assert (completion.adapter, completion.adapter_version) == (want.adapter, want.adapter_version)
        num_same += completion.token_ids == want.token_ids
    # Rounding, which differs between batches, may decide between two tokens.
    assert num_same >= len(ended) / 2
    assert [c.token_ids for c in engine.generate(requests)] == [c.token_ids for c in wanted]


@pytest.mark.parametrize("mode", ["swapped", "multi-lora"])
def test_a_frozen_copy_is_served_as_it_was_until_it_is_renewed(served, mode):
    pair = served[2]
    engine = _engine(served, mode)
    if mode == "multi-lora":
        # The server still knows the ids of the tests before, and would take them for weights that it has.
        engine._adapters._ids = itertools.count(100)
    pair.snapshot(f"past-{mode}", "A")
    requests = [Request(tuple(range(5, 40)), name, 24, seed=3) for name in (f"past-{mode}", "B")]
    first = engine.generate(requests)
    with torch.no_grad():
        for site in pair.sites:
            site.up("A").mul_(-1.0)
    pair.count_step("A")
    again = engine.generate(requests)
    assert [c.token_ids for c in again] == [c.token_ids for c in first]
    pair.snapshot(f"past-{mode}", "A")
    renewed = engine.generate(requests)
    assert renewed[0].token_ids != first[0].token_ids
    assert renewed[0].adapter_version == pair.version("A")
    assert renewed[1].token_ids == first[1].token_ids
