"""What a run will cost, worked out before it starts: rollouts, tokens at most, memory, disk."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from transformers import AutoModelForCausalLM

from agon.audit.findings import readable
from agon.config import Settings
from agon.errors import ModelError
from agon.match.engines import is_vllm_fit
from agon.methods.registry import method_named
from agon.methods.settle import settled
from agon.model.base import load_config
from agon.model.locate import find_model_folder
from agon.runs.space import readable_size
from agon.train.footprint import BaseShape, DiskNeed, MemoryNeed, estimate_disk, estimate_memory, shape_of

_BYTES = {"float32": 4, "bfloat16": 2}
_DEVICES = {"cpu": "machine", "cuda": "GPU"}


@dataclass(frozen=True, slots=True)
class Budget:
    """Counts of a whole run. Units: tokens are generated ones and upper limits; memory and disk in bytes, estimates.

    A method that resamples takes more than `rollouts_per_step`, and fewer steps; `rollouts` holds for it as well.
    """

    method: str
    rollouts_per_problem: int
    rollouts_per_step: int
    rollouts: int
    tokens_at_most: int
    base_parameters: int
    adapter_parameters: int
    device: str
    engine: str
    memory: MemoryNeed
    disk: DiskNeed
    resamples: bool = False


def plan_budget(settings: Settings) -> Budget:
    """Work out a run's budget from its settings and the base's configuration; no weights are loaded.

    Raises:
        ConfigError: the recipe contradicts its method.
        ModelError: the base cannot be found, or its configuration cannot be used.
    """
    settings = settled(settings)
    own, rollout = settings.train, settings.rollout
    method = method_named(own.method)
    lineup = method.lineup(0)
    per_problem = method.matches_per_problem(own.group_size) * lineup.num_rollouts
    rollouts = per_problem * own.problems_per_step * own.steps
    per_match = rollout.max_draft_tokens * len(lineup.drafters) + rollout.max_challenge_tokens * lineup.has_challenge
    tokens = method.matches_per_problem(own.group_size) * per_match * own.problems_per_step * own.steps
    shape = _shape(settings)
    device, engine = _device(settings), _engine(settings, shape)
    width = _BYTES.get(settings.model.dtype, 2 if device == "cuda" else 4)
    return Budget(
        method=own.method,
        rollouts_per_problem=per_problem,
        rollouts_per_step=per_problem * own.problems_per_step,
        rollouts=rollouts,
        tokens_at_most=tokens,
        base_parameters=shape.num_parameters,
        adapter_parameters=shape.num_adapter,
        device=device,
        engine=engine,
        memory=estimate_memory(shape, settings, device=device, width=width, engine=engine),
        disk=estimate_disk(shape, settings, rollouts=rollouts, tokens=tokens),
        resamples=method.resamples,
    )


def describe_budget(budget: Budget) -> str:
    """Render a budget for people."""
    share = budget.adapter_parameters / budget.base_parameters
    least = "at least " if budget.resamples else ""
    return (
        f"# budget of {budget.method}: {budget.rollouts_per_problem} rollouts a problem, {least}{budget.rollouts_per_step} a step, "
        f"{budget.rollouts:,} in all; at most {budget.tokens_at_most:,} generated tokens\n"
        f"# base {budget.base_parameters:,} parameters; each adapter {budget.adapter_parameters:,} ({share:.2%} of the base)\n"
        f"# memory of the {_DEVICES[budget.device]}, estimated: {_parts(budget)}; {readable(budget.memory.peak)} at the peak"
        f"{_host(budget)}\n"
        f"# disk, estimated: checkpoints {readable_size(budget.disk.checkpoints)}, matches up to {readable_size(budget.disk.matches)}, "
        f"metrics {readable_size(budget.disk.lines)}; without evaluations\n"
    )


def _parts(budget: Budget) -> str:
    memory = budget.memory
    parts = {
        "base": memory.base,
        "copies of adapted weights": memory.engine,
        "adapters with optimisers": memory.adapters,
        "sampling cache up to": memory.cache,
        "one micro-batch": memory.microbatch,
    }
    return ", ".join(f"{what} {readable(count)}" for what, count in parts.items() if count)


def _host(budget: Budget) -> str:
    if budget.device == "cpu":
        return f" and {readable(budget.memory.host)} for the process itself"
    return f"; main memory {readable(budget.memory.host)}"


def _shape(settings: Settings) -> BaseShape:
    folder = find_model_folder(settings.model.base, settings.model.revision)
    config = load_config(folder, settings.model).get_text_config()
    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, trust_remote_code=settings.model.trust_remote_code)
        return shape_of(model, config, settings.adapter)
    except Exception as error:  # a configuration may say anything, and a model's own code raise anything
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise ModelError(f"{settings.model.base}: its config.json cannot be used ({reason})") from None


def _device(settings: Settings) -> str:
    return "cuda" if settings.model.device in ("auto", "cuda") and torch.cuda.is_available() else "cpu"


def _engine(settings: Settings, shape: BaseShape) -> str:
    asked = settings.rollout.engine
    if asked != "auto":
        return asked
    return "vllm" if is_vllm_fit(_device(settings), shape.num_parameters) else "torch"
