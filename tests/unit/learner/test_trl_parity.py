"""Our update against TRL's own code: the same rollouts and rewards give the same loss and gradient (docs/decisions/0010)."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch import Tensor
from transformers import PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from agon.learner.advantages import RewardGroup, assign_advantages
from agon.learner.learner import Learner
from agon.learner.losses import LOSSES, ScoredTokens, StepCounts, importance_weights
from agon.learner.packing import Sample, lay_out

VOCABULARY = 40
NUM_GROUPS, GROUP_SIZE = 4, 3
NUM_ROWS = NUM_GROUPS * GROUP_SIZE
TEMPERATURE = 0.8
MAX_COMPLETION = 32
# The clip ranges of agon's losses, in TRL's words.
IN_TRL: dict[str, dict[str, Any]] = {
    "dapo": {"loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28},
    "grpo": {"loss_type": "grpo", "epsilon": 0.2, "epsilon_high": 0.2},
    "dr_grpo": {"loss_type": "dr_grpo", "epsilon": 0.2, "epsilon_high": 0.2},
    "gspo": {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4},
    "cispo": {"loss_type": "cispo", "epsilon_high": 5.0},
}


class Stepped(NamedTuple):
    loss: float
    gradients: list[Tensor]


class Rollouts(NamedTuple):
    """Completions group by group, and what each earned."""

    samples: list[Sample]
    rewards: list[float]

    def credited(self) -> list[Sample]:
        """The samples with agon's advantages."""
        groups = [
            RewardGroup(rewards, [reward > 1.0 for reward in rewards], rewards, [False] * GROUP_SIZE)
            for rewards in (self.rewards[i : i + GROUP_SIZE] for i in range(0, NUM_ROWS, GROUP_SIZE))
        ]
        credit = assign_advantages(groups, "group_std")
        given = [pair for group in credit.groups for pair in zip(group.advantages, group.is_learned, strict=True)]
        return [
            replace(sample, advantage=advantage, is_masked=not is_learned)
            for sample, (advantage, is_learned) in zip(self.samples, given, strict=True)
        ]


@pytest.fixture
def rollouts(make_samples: Callable[..., list[Sample]]) -> Rollouts:
    rng = random.Random(1)
    rewards = [round(rng.uniform(0.0, 3.5), 2) for _ in range(NUM_ROWS)]
    return Rollouts(make_samples(NUM_ROWS), rewards)


@pytest.fixture
def make_trainer(make_base, tmp_path, monkeypatch) -> Callable[..., GRPOTrainer]:
    """A stock trainer on a PEFT model of its own that holds the pair's numbers, and gets `rollouts` for whatever it asks."""
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")

    def make(pair, rollouts: Rollouts, *, rows_at_once: int = NUM_ROWS, **config: Any) -> GRPOTrainer:
        lora = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
        model = PeftModel(make_base().model, lora, adapter_name="A")
        take_over(model, pair)
        own = make_config(tmp_path, rows_at_once=rows_at_once, **config)
        trainer = GRPOTrainer(
            model,
            lambda earned, **_: earned,
            own,
            train_dataset=Dataset.from_dict({"prompt": [f"t{number}" for number in range(NUM_GROUPS)]}),
            processing_class=tokenizer(),
            optimizers=(torch.optim.SGD(model.parameters(), lr=0.0), None),
            rollout_func=lambda prompts, trainer: as_trl_wants(rollouts),
        )
        # The correction for an engine that differs is TRL's with vLLM alone; nothing of vLLM is called when rollouts are given.
        trainer.use_vllm, trainer._last_loaded_step = True, 0
        return trainer

    return make


def make_config(folder: Path, *, rows_at_once: int, **config: Any) -> GRPOConfig:
    return GRPOConfig(
        output_dir=str(folder),
        max_steps=1,
        per_device_train_batch_size=rows_at_once,
        gradient_accumulation_steps=NUM_ROWS // rows_at_once,
        num_generations=GROUP_SIZE,
        shuffle_dataset=False,
        max_completion_length=MAX_COMPLETION,
        temperature=TEMPERATURE,
        max_grad_norm=0.0,
        vllm_importance_sampling_mode="token_truncate",
        vllm_importance_sampling_clip_max=2.0,
        bf16=False,
        gradient_checkpointing=False,
        dataloader_pin_memory=False,
        report_to="none",
        disable_tqdm=True,
        save_strategy="no",
        logging_strategy="no",
        **config,
    )


def tokenizer() -> PreTrainedTokenizerFast:
    words = {f"t{number}": number for number in range(VOCABULARY)}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel(words, "t0")), eos_token="t2", pad_token="t2")


def as_trl_wants(rollouts: Rollouts) -> dict[str, Any]:
    return {
        "prompt_ids": [list(sample.prompt_ids) for sample in rollouts.samples],
        "completion_ids": [list(sample.completion_ids) for sample in rollouts.samples],
        "logprobs": [list(sample.behavior_logprobs) for sample in rollouts.samples],
        "earned": rollouts.rewards,
    }


@torch.no_grad()
def take_over(model: PeftModel, pair) -> None:
    for name, tensor in pair.state("A").items():
        model.get_parameter(name.replace(".weight", ".A.weight")).copy_(tensor)


def in_order(model: PeftModel, pair) -> list[Tensor]:
    """TRL's gradients in the order of `AdapterPair.parameters`."""
    found = [model.get_parameter(name.replace(".weight", ".A.weight")).grad for name in pair.state("A")]
    assert all(gradient is not None for gradient in found)
    return [gradient.clone() for gradient in found if gradient is not None]


def trl_step(trainer: GRPOTrainer, pair) -> Stepped:
    """One step of `GRPOTrainer.train`: it asks, scores, normalises, shuffles, splits and accumulates by itself."""
    caught: list[Tensor] = []
    trainer.optimizer.register_step_pre_hook(lambda *_: caught.extend(in_order(trainer.model, pair)))
    return Stepped(trainer.train().training_loss, caught)


def own_step(learner: Learner, samples: list[Sample], monkeypatch) -> Stepped:
    """One `Learner.update`, its gradients caught as they are clipped."""
    caught: list[Tensor] = []

    def catch(parameters, _):
        caught.extend(parameter.grad.clone() for parameter in parameters)
        return torch.stack([gradient.norm() for gradient in caught]).norm()

    with monkeypatch.context() as patch:
        patch.setattr(torch.nn.utils, "clip_grad_norm_", catch)
        report = learner.update("A", samples, step=0, total_steps=10)
    return Stepped(report.loss, caught)


def assert_same(own: Stepped, trl: Stepped, *, factor: float = 1.0) -> None:
    assert own.loss == pytest.approx(factor * trl.loss, rel=1e-5, abs=1e-6)
    largest = max(gradient.abs().max().item() for gradient in own.gradients)
    assert largest > 1e-3
    for mine, theirs in zip(own.gradients, trl.gradients, strict=True):
        torch.testing.assert_close(mine, factor * theirs, rtol=1e-5, atol=1e-5 * largest)


@pytest.mark.parametrize("rows_at_once", [NUM_ROWS, 4])
@pytest.mark.parametrize("loss", LOSSES)
def test_one_step_on_the_same_rollouts_is_trls(
    loss, rows_at_once, make_pair, make_learner, make_trainer, rollouts, monkeypatch
):
    pair = make_pair()
    learner = make_learner(pair, temperature=TEMPERATURE, loss=loss, importance_cap=2.0, tokens_per_microbatch=60)
    trainer = make_trainer(pair, rollouts, rows_at_once=rows_at_once, **IN_TRL[loss])
    own = own_step(learner, rollouts.credited(), monkeypatch)
    assert_same(own, trl_step(trainer, pair))


@pytest.mark.parametrize("loss", LOSSES)
def test_away_from_the_sampling_policy_loss_and_gradient_are_trls(
    loss, make_pair, make_learner, make_trainer, rollouts
):
    pair = make_pair()
    samples = rollouts.credited()
    learner = make_learner(pair, temperature=TEMPERATURE, loss=loss)
    trainer = make_trainer(pair, rollouts, **IN_TRL[loss])
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    batch = trainer._generate_and_score_completions([{"prompt": f"t{i // GROUP_SIZE}"} for i in range(NUM_ROWS)])
    laid_out = lay_out(samples, range(NUM_ROWS), is_packed=True, device=pair.base.device)
    with learner.runner.frozen("A") as model:
        old = learner.runner.score(model, laid_out).logprobs
    move(pair)
    take_over(trainer.model, pair)

    counts = StepCounts(num_tokens=len(old), num_sequences=NUM_ROWS, max_tokens=MAX_COMPLETION)
    function, low, high = LOSSES[loss]
    with learner.runner.training("A", num_tokens=len(old)) as model:
        tokens = ScoredTokens(
            logprobs=learner.runner.score(model, laid_out).logprobs,
            old_logprobs=old,
            weights=importance_weights(old, laid_out.behavior_logprobs, 2.0),
            advantages=laid_out.advantages[laid_out.rows],
            rows=laid_out.rows,
            lengths=laid_out.lengths,
        )
        mine = function(tokens, counts, low, high)
        own = Stepped(mine.loss.item(), list(torch.autograd.grad(mine.loss, pair.parameters("A"))))
    theirs = trainer._compute_loss(trainer.model, batch)
    theirs.backward()
    # Else the two would agree for want of anything to clip and to truncate.
    assert 0.05 < mine.is_clipped.float().mean() < 0.95 or loss == "cispo"
    assert (tokens.weights == 2.0).any()
    assert_same(own, Stepped(theirs.item(), in_order(trainer.model, pair)))


@torch.no_grad()
def move(pair) -> None:
    generator = torch.Generator().manual_seed(7)
    for parameter in pair.parameters("A"):
        parameter.add_(0.03 * torch.randn(parameter.shape, generator=generator))


def test_bnpo_is_dapo_while_the_step_is_one_micro_batch_and_not_beyond(
    make_pair, make_learner, make_trainer, rollouts, monkeypatch
):
    pair = make_pair()
    config = IN_TRL["dapo"] | {"loss_type": "bnpo"}
    whole, split = (trl_step(make_trainer(pair, rollouts, rows_at_once=rows, **config), pair) for rows in (NUM_ROWS, 4))
    learner = make_learner(pair, temperature=TEMPERATURE, importance_cap=2.0)
    own = own_step(learner, rollouts.credited(), monkeypatch)
    assert_same(own, whole)
    # Micro-batches of different length weigh alike there.
    assert abs(split.loss - own.loss) > 1e-2 * abs(own.loss)


@pytest.mark.parametrize("loss", LOSSES)
def test_trl_counts_a_group_without_a_signal_and_agon_does_not(
    loss, make_pair, make_learner, make_trainer, rollouts, monkeypatch
):
    dead = Rollouts(rollouts.samples, [2.5] * GROUP_SIZE + rollouts.rewards[GROUP_SIZE:])
    pair = make_pair()
    trl = trl_step(make_trainer(pair, dead, **IN_TRL[loss]), pair)
    learner = make_learner(pair, temperature=TEMPERATURE, loss=loss, importance_cap=2.0)
    own = own_step(learner, dead.credited(), monkeypatch)
    lengths = [len(sample.completion_ids) for sample in dead.samples]
    share = sum(lengths) / sum(lengths[GROUP_SIZE:]) if loss in ("dapo", "cispo") else NUM_GROUPS / (NUM_GROUPS - 1)
    assert_same(own, trl, factor=share)
