"""What a run will cost, worked out before it starts: rollouts, tokens at most, memory."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from transformers import AutoModelForCausalLM

from agon.config import Settings
from agon.methods.registry import method_named
from agon.methods.settle import settled
from agon.model.base import load_config
from agon.model.locate import find_model_folder

_BYTES = {"float32": 4, "bfloat16": 2}


@dataclass(frozen=True, slots=True)
class Budget:
    """Counts of a whole run. Units: tokens are generated ones and upper limits; memory in bytes, an estimate.

    A method that resamples takes more than `rollouts_per_step`, and fewer steps; `rollouts` holds for it as well.
    """

    method: str
    rollouts_per_problem: int
    rollouts_per_step: int
    rollouts: int
    tokens_at_most: int
    base_parameters: int
    adapter_parameters: int
    base_bytes: int
    adapter_bytes: int
    activation_bytes: int
    cache_bytes: int
    resamples: bool = False

    @property
    def memory_bytes(self) -> int:
        """Everything that is held at once: base, adapters with their optimisers, and the larger of the two phases."""
        return self.base_bytes + self.adapter_bytes + max(self.activation_bytes, self.cache_bytes)


def plan_budget(settings: Settings) -> Budget:
    """Work out a run's budget from its settings and the base's configuration; no weights are loaded.

    Memory: base weights (twice where a merged copy is sampled from), both adapters in float32 with gradient and two moments,
    and the larger of the key-value cache of `rollout.max_rows` full rows and the activations of one packed micro-batch (16 hidden
    vectors a layer and token, or one with gradient checkpointing).

    Raises:
        ConfigError: the recipe contradicts its method.
        ModelError: the base cannot be found.
    """
    settings = settled(settings)
    own, rollout = settings.train, settings.rollout
    method = method_named(own.method)
    lineup = method.lineup(0)
    per_problem = method.matches_per_problem(own.group_size) * lineup.num_rollouts
    per_match = rollout.max_draft_tokens * len(lineup.drafters) + rollout.max_challenge_tokens * lineup.has_challenge
    tokens = method.matches_per_problem(own.group_size) * per_match * own.problems_per_step * own.steps
    folder = find_model_folder(settings.model.base, settings.model.revision)
    config = load_config(folder, settings.model).get_text_config()
    width = _BYTES.get(settings.model.dtype, 2 if torch.cuda.is_available() else 4)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, trust_remote_code=settings.model.trust_remote_code)
    adapter = _adapter_parameters(model, settings)
    base = sum(parameter.numel() for parameter in model.parameters())
    layers, hidden = config.num_hidden_layers, config.hidden_size
    head = getattr(config, "head_dim", None) or hidden // config.num_attention_heads
    row = settings.task.max_prompt_tokens + max(
        rollout.max_draft_tokens, rollout.max_summary_tokens + rollout.max_challenge_tokens
    )
    vectors = 1 if own.gradient_checkpointing is True else 16
    return Budget(
        method=own.method,
        rollouts_per_problem=per_problem,
        rollouts_per_step=per_problem * own.problems_per_step,
        rollouts=per_problem * own.problems_per_step * own.steps,
        tokens_at_most=tokens,
        base_parameters=base,
        adapter_parameters=adapter,
        base_bytes=base * width * (2 if width == 4 else 1),
        adapter_bytes=2 * adapter * 4 * 4,
        activation_bytes=(own.tokens_per_microbatch or 8192) * hidden * layers * vectors * width,
        resamples=method.resamples,
        cache_bytes=rollout.max_rows * row * layers * 2 * config.num_key_value_heads * head * width,
    )


def describe_budget(budget: Budget) -> str:
    """Render a budget for people."""
    share = budget.adapter_parameters / budget.base_parameters
    least = "at least " if budget.resamples else ""
    return (
        f"# budget of {budget.method}: {budget.rollouts_per_problem} rollouts a problem, {least}{budget.rollouts_per_step} a step, "
        f"{budget.rollouts:,} in all; at most {budget.tokens_at_most:,} generated tokens\n"
        f"# base {budget.base_parameters:,} parameters; each adapter {budget.adapter_parameters:,} ({share:.2%} of the base)\n"
        f"# memory, estimated: base {_gib(budget.base_bytes)}, adapters with optimisers {_gib(budget.adapter_bytes)}, "
        f"sampling cache up to {_gib(budget.cache_bytes)}, one micro-batch {_gib(budget.activation_bytes)}; "
        f"together about {_gib(budget.memory_bytes)}\n"
    )


def _adapter_parameters(model: torch.nn.Module, settings: Settings) -> int:
    targets = settings.adapter.targets
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None  # type: ignore[operator]
    return sum(
        settings.adapter.rank * (module.in_features + module.out_features)
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear)
        and module is not head
        and (targets == "all-linear" or name.rpartition(".")[2] in targets)
    )


def _gib(count: int) -> str:
    return f"{count / 2**30:.2f} GiB" if count >= 2**27 else f"{count / 2**20:.1f} MiB"
