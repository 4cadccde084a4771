"""Agon on an unmodified TRL trainer: two adapters of one base take turns, and a program says what each completion earns.

    pip install 'agon-rl[trl]'
    python examples/trl_agon.py --steps 2                               the embedded base on a CPU, in seconds
    python examples/trl_agon.py recipes/smollm2-svamp.toml --out pair   another base and other problems
    python examples/trl_agon.py RECIPE.toml --vllm                      on a GPU, sampled by vLLM in the same process

Two steps of the trainer are one of Agon's: the drafter samples and learns, then the challenger reads the drafts, samples and learns.
A `GRPOTrainer` needs three things for it: a callback that switches adapters, a `rollout_func` that gives each row a prompt of its
own, and rewards that look at the rival. Of the recipe, model, task, caps, group size, reward weights and optimiser are taken; the loss
is TRL's `dapo`, and both adapters start as LoRA does. How this differs from `agon train`: docs/decisions/0010-trl-as-baseline.md.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel
from transformers import PrinterCallback, TrainerCallback

from agon.answers import format_score
from agon.cli.common import settings_of
from agon.config import AdapterSettings, Settings
from agon.datacheck.golds import drop_unreadable
from agon.errors import ConfigError
from agon.model.base import Base, load_base
from agon.prompts.builder import PromptBuilder
from agon.prompts.summary import DraftSummarizer
from agon.records import Attempt, Completion, Problem, Prompt, Summary, Verdict
from agon.rewards.terms import RewardWeights, conversion_bonus
from agon.rollout.text import TextReader
from agon.tasks.loader import drop_long, load_task
from agon.train.order import problems_of_step
from agon.verifiers.registry import open_verifiers

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # TRL calls rollout_func experimental, each time

from trl import GRPOConfig, GRPOTrainer

Earned = dict[str, float | None]


def player(step: int) -> str:
    """Return whose turn it is: A drafts, B challenges, B drafts, A challenges, and again."""
    return "ABBA"[step % 4]


def is_challenge(step: int) -> bool:
    """Tell whether a step of the trainer is the second half of one of Agon's."""
    return step % 2 == 1


class TakeTurns(TrainerCallback):
    """Activates the adapter whose turn it is. The other gets no gradient, so that AdamW passes it by."""

    def on_step_begin(self, args: Any, state: Any, control: Any, *, model: Any = None, **kwargs: Any) -> None:
        model.set_adapter(player(state.global_step))

    def on_log(self, args: Any, state: Any, control: Any, *, logs: Any = None, **kwargs: Any) -> None:
        if "reward" in logs:
            step = state.global_step - 1
            means = ", ".join(f"{name} {logs[f'rewards/{name}/mean']:.2f}" for name in REWARDS)
            print(f"step {step // 2}: {player(step)} {'challenges' if is_challenge(step) else 'drafts'}: {means}")


class Exchange:
    """Asks, samples with the trainer's own engine, checks; keeps the drafts for the challenges that follow."""

    def __init__(self, base: Base, problems: Sequence[Problem], settings: Settings) -> None:
        self.problems = {problem.id: problem for problem in problems}
        self.style, self.max_summary_tokens = settings.task.answer_style, settings.rollout.max_summary_tokens
        self.summarizer = DraftSummarizer(self.style, base.tokenizer, settings.task.withholding)
        self.stop_ids, self.text = base.stop_ids, TextReader(base.tokenizer)
        self.prompts = prompt_builder(base, settings)
        self.verifiers = open_verifiers(settings.verifier)
        self.drafts: list[Attempt] = []

    def rollout(self, ids: list[str], trainer: GRPOTrainer) -> dict[str, Any]:
        """Sample a completion for each problem id and say what it earned: TRL's `rollout_func`."""
        problems = [self.problems[id_] for id_ in ids]
        if not is_challenge(trainer.state.global_step):
            prompts = [self.prompts.draft(problem) for problem in problems]
            tokens, logprobs, self.drafts = self.sample(problems, prompts, trainer)
            earned = [plain_terms(draft) for draft in self.drafts]
        else:
            summaries = [self.summary(problem, draft) for problem, draft in zip(problems, self.drafts, strict=True)]
            prompts = [self.prompts.challenge(problem, [s]) for problem, s in zip(problems, summaries, strict=True)]
            tokens, logprobs, challenges = self.sample(problems, prompts, trainer)
            earned = [challenge_terms(*row) for row in zip(challenges, self.drafts, summaries, strict=True)]
        rewards = {name: [row[name] for row in earned] for name in REWARDS}
        asked = [list(prompt.token_ids) for prompt in prompts]
        return {"prompt_ids": asked, "completion_ids": tokens, "logprobs": logprobs, **rewards}

    def sample(
        self, problems: Sequence[Problem], prompts: Sequence[Prompt], trainer: GRPOTrainer
    ) -> tuple[list[list[int]], Any, list[Attempt]]:
        """Return token ids and logprobs as TRL wants them, and the same as checked attempts."""
        asked = [list(prompt.token_ids) for prompt in prompts]
        tokens, logprobs = trainer._generate_single_turn(asked, None, {}, trainer.num_generations)
        completions = [self.completion(row, player(trainer.state.global_step)) for row in tokens]
        verdicts = self.verifiers.verify(list(zip(problems, completions, strict=True)), self.style)
        self.verifiers.check_error_share()
        return tokens, logprobs, [self.attempt(*row) for row in zip(prompts, completions, verdicts, strict=True)]

    def summary(self, problem: Problem, draft: Attempt) -> Summary:
        """Return what the challenger may read of a draft; the answer is withheld."""
        return self.summarizer.summarize(problem, draft.completion, max_tokens=self.max_summary_tokens)

    def completion(self, ids: list[int], adapter: str) -> Completion:
        has_stop = ids[-1] in self.stop_ids
        text = self.text.read(ids, has_stop=has_stop)
        return Completion(tuple(ids), (), text, "stop" if has_stop else "length", adapter, 0)

    def attempt(self, prompt: Prompt, completion: Completion, verdict: Verdict) -> Attempt:
        phi = format_score(completion.text, self.style, is_truncated=completion.is_truncated)
        return Attempt("drafter", completion.adapter, prompt, completion, verdict, phi)


def plain_terms(attempt: Attempt) -> Earned:
    """Return a draft's reward term by term, before weights. None, where the checker failed, keeps it out of TRL's group mean."""
    if attempt.verdict.is_masked:
        return dict.fromkeys(REWARDS)
    return {"correctness": float(attempt.is_correct), "form": attempt.format_score, "conversion": 0.0}


def challenge_terms(challenge: Attempt, draft: Attempt, summary: Summary) -> Earned:
    """Return a challenge's terms: as a draft's, and a bonus for being right where the rival was wrong."""
    earned = plain_terms(challenge)
    # A rival without a verdict or without a summary was not beaten.
    if not (challenge.verdict.is_masked or draft.verdict.is_masked or summary.is_empty):
        earned["conversion"] = conversion_bonus(challenge.is_correct, draft.is_correct, RewardWeights(conversion=1.0))
    return earned


# TRL hands each reward function what `rollout` returned under its name.
def correctness(*, correctness: list[float | None], **row: Any) -> list[float | None]:
    return correctness


def form(*, form: list[float | None], **row: Any) -> list[float | None]:
    return form


def conversion(*, conversion: list[float | None], **row: Any) -> list[float | None]:
    return conversion


REWARDS = {"correctness": correctness, "form": form, "conversion": conversion}


def two_adapters(model: Any, settings: AdapterSettings) -> PeftModel:
    """Put adapters A and B on a base."""
    targets = settings.targets if isinstance(settings.targets, str) else list(settings.targets)
    lora = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=targets,
        task_type="CAUSAL_LM",
    )
    pair = PeftModel(model, lora, adapter_name="A")
    pair.add_adapter("B", lora)
    return pair


def make_config(settings: Settings, *, is_on_gpu: bool, rows_at_once: int = 8, **more: Any) -> GRPOConfig:
    """Say in TRL's words what the recipe says; `more` comes on top."""
    own, rollout, reward = settings.train, settings.rollout, settings.reward
    if rollout.max_draft_tokens != rollout.max_challenge_tokens:
        raise ConfigError(
            f"rollout.max_draft_tokens is {rollout.max_draft_tokens} and max_challenge_tokens {rollout.max_challenge_tokens}, "
            "but TRL has one cap for both: set them alike"
        )
    num_rows = own.problems_per_step * own.group_size
    rows = math.gcd(rows_at_once, num_rows)
    said: dict[str, Any] = {
        "max_steps": 2 * own.steps,
        "per_device_train_batch_size": rows,
        "gradient_accumulation_steps": num_rows // rows,
        "num_generations": own.group_size,
        "max_completion_length": rollout.max_draft_tokens,
        "temperature": rollout.temperature,
        "shuffle_dataset": False,
        "loss_type": "dapo",
        "epsilon": 0.2,
        "epsilon_high": 0.28,
        "reward_weights": [reward.correctness, reward.format, reward.conversion],
        # TRL's default multiplies up a sequence's ratios, so that long completions lose their weight.
        "vllm_importance_sampling_mode": "token_truncate",
        "vllm_importance_sampling_clip_max": 2.0,
        "warmup_steps": own.warmup_share,
        "max_grad_norm": own.max_grad_norm,
        "bf16": is_on_gpu,
        "gradient_checkpointing": is_on_gpu,
        "dataloader_pin_memory": is_on_gpu,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }
    return GRPOConfig(**(said | more))


def make_trainer(
    pair: PeftModel, tokenizer: Any, ids: Sequence[str], settings: Settings, rollout: Callable[..., Any], **more: Any
) -> GRPOTrainer:
    """Return a stock trainer for the pair. `ids` are the problems of each step, every step's twice: for drafts and for challenges."""
    # The trainer's own optimiser would hold the adapter that is active now, and no other.
    both = [parameter for name, parameter in pair.named_parameters() if ".lora_" in name]
    optimizer = torch.optim.AdamW(both, lr=settings.train.learning_rate, weight_decay=settings.train.weight_decay)
    trainer = GRPOTrainer(
        pair,
        list(REWARDS.values()),
        make_config(settings, is_on_gpu=both[0].is_cuda, **more),
        train_dataset=Dataset.from_dict({"prompt": list(ids)}),
        processing_class=tokenizer,
        callbacks=[TakeTurns()],
        optimizers=(optimizer, None),
        rollout_func=rollout,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def prompt_builder(base: Base, settings: Settings) -> PromptBuilder:
    """Return agon's own prompts, in the recipe's wording."""
    task, thinking = settings.task, settings.model.enable_thinking
    return PromptBuilder(base.tokenizer, wording=task.wording, style=task.answer_style, enable_thinking=thinking)


def train(settings: Settings, folder: str, **more: Any) -> GRPOTrainer:
    """Train a pair as the recipe says and return the trainer that did it."""
    base = load_base(settings.model)
    prompts = prompt_builder(base, settings)
    loaded = drop_unreadable(load_task(settings.task), settings.verifier).train
    limit = settings.task.max_prompt_tokens
    problems, _ = drop_long(loaded, lambda problem: len(prompts.draft(problem).token_ids), limit)
    own = settings.train
    ids = [
        problem.id
        for step in range(own.steps)
        for problem in 2 * list(problems_of_step(problems, step, per_step=own.problems_per_step, seed=own.seed))
    ]
    exchange = Exchange(base, problems, settings)
    try:
        pair = two_adapters(base.model, settings.adapter)
        trainer = make_trainer(pair, base.tokenizer, ids, settings, exchange.rollout, output_dir=folder, **more)
        trainer.train()
    finally:
        exchange.verifiers.close()
    return trainer


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="?", default="quickstart-agon", help="a recipe of agon's, or a preset's name")
    parser.add_argument("--steps", type=int, help="steps of Agon, of two trainer steps each (default: the recipe's)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override one setting")
    parser.add_argument("--vllm", action="store_true", help="sample with vLLM on the trainer's GPU")
    parser.add_argument("--out", help="folder for the adapters, as PEFT saves them")
    options = parser.parse_args(arguments)
    overrides = [*options.set, *([f"train.steps={options.steps}"] if options.steps else [])]
    more = {"use_vllm": True, "vllm_mode": "colocate"} if options.vllm else {}
    with tempfile.TemporaryDirectory() as folder:
        trainer = train(settings_of(options.recipe, overrides), folder, **more)
    if options.out:
        trainer.model.save_pretrained(options.out, selected_adapters=["A", "B"])


if __name__ == "__main__":
    main()
