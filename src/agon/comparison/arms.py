"""Which runs are seeds of one arm: as a matrix says, or by method and by the settings in which runs of one method differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from agon.comparison.collect import Collected, Training
from agon.errors import DataError

# Settings that say where and how fast a run computes, not what it learns. Runs that differ in nothing else are one arm.
_MACHINE = frozenset(
    {
        "model.device",
        "rollout.engine",
        "rollout.vllm_adapters",
        "rollout.engine_memory_share",
        "rollout.parity_every",
        "rollout.max_rows",
        "train.tokens_per_microbatch",
        "train.logprob_chunk",
        "train.gradient_checkpointing",
        "train.compile",
        "train.attention",
        "train.save_every",
        "train.keep_checkpoints",
        "train.save_matches_every",
        "train.max_matches_gb",
    }
)
# Settings that say where something lies; the hashes say what it is.
_PLACES = frozenset({"model.base", "model.revision", "task.path", "task.test_path"})
_HASHED = (("base", "the base model"), ("data", "the task's data"))
_NEVER = frozenset({"train.seed", "train.method"})
_NO_TABLES = ("tracking.", "evaluation.", "verifier.", "alarms.")
_CAPS = ("rollout.max_draft_tokens", "rollout.max_challenge_tokens")


@dataclass(frozen=True, slots=True)
class PlannedArm:
    """An arm and its trainings, one a seed."""

    name: str
    title: str
    method: str
    trainings: tuple[Training, ...]
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    group: str | None = None


def plan_arms(collected: Collected) -> list[PlannedArm]:
    """Return the arms in the order found, those a matrix names first. What several matrices name alike is one arm.

    Raises:
        DataError: two runs are the same arm with the same seed, or runs of a named arm learned with other settings, base or data.
    """
    by_run = {training.run: training for training in collected.trainings}
    arms: list[PlannedArm] = []
    for arm, runs in collected.named:
        trainings = tuple(by_run[run] for run in runs if run in by_run)
        arms.append(PlannedArm(arm.name, arm.title, arm.method, trainings, dict(arm.set), arm.group))
        _require_equal_settings(arms[-1])
    taken = {run for _, runs in collected.named for run in runs}
    others = [training for training in collected.trainings if training.run not in taken]
    names = {arm.name for arm in arms}
    for method in dict.fromkeys(training.method for training in others):
        arms += _arms_of(method, [training for training in others if training.method == method], names)
    for arm in arms:
        _require_distinct_seeds(arm)
    return arms


def setting_notes(arms: Sequence[PlannedArm]) -> list[str]:
    """Say in which settings arms of different methods differ, beside those that name an arm and those its method fixes."""
    first = [arm.trainings[0].config for arm in arms if arm.trainings]
    names = {key for arm in arms for key in arm.settings}
    keys = [key for key in _differing(first, _MACHINE | _PLACES) if key not in names]
    return [f"arms also differ in {', '.join(keys)}"] if keys else []


def _arms_of(method: str, trainings: Sequence[Training], taken: Collection[str]) -> list[PlannedArm]:
    """Split the runs of one method by the settings in which they differ; by machine settings only where seeds would repeat."""
    configs = [training.config for training in trainings]
    groups: dict[str, list[Training]] = {}
    keys: list[str] = []
    for ignored in (_MACHINE, frozenset[str]()):
        keys = _differing(configs, ignored)
        groups = {}
        for training in trainings:
            groups.setdefault(repr([training.config[key] for key in keys]), []).append(training)
        if all(len({training.seed for training in group}) == len(group) for group in groups.values()):
            break
    arms: list[PlannedArm] = []
    for group in groups.values():
        settings = {key: group[0].config[key] for key in keys}
        name = _name(method, settings, configs)
        if name in taken:
            name = f"{name} ({Path(group[0].run).name})"
        arms.append(PlannedArm(name, name, method, tuple(group), settings))
    return arms


def _differing(configs: Sequence[Mapping[str, Any]], ignored: Collection[str]) -> list[str]:
    """Return the settings with more than one value. One that an older run's file does not hold tells nothing."""
    if not configs:
        return []
    shared = [key for key in configs[0] if all(key in config for config in configs)]
    kept = [key for key in shared if key not in _NEVER and key not in ignored and not key.startswith(_NO_TABLES)]
    return [key for key in kept if len({repr(config[key]) for config in configs}) > 1]


def _name(method: str, settings: Mapping[str, Any], configs: Sequence[Mapping[str, Any]]) -> str:
    if not settings:
        return method
    if set(settings) <= set(_CAPS):
        lowest = {key: min(config[key] for config in configs) for key in settings}
        if all(settings[key] == lowest[key] for key in settings):
            return method
        if all(settings[key] == 2 * lowest[key] for key in settings):
            return f"{method}-doubled-cap"
    short = [key.rpartition(".")[2] for key in settings]
    labels = short if len(set(short)) == len(short) else list(settings)
    return f"{method}-{','.join(f'{label}={value}' for label, value in zip(labels, settings.values(), strict=True))}"


def _require_equal_settings(arm: PlannedArm) -> None:
    # Not all with the first alone: an older run's file may lack the setting in which two others differ.
    for pair in combinations(arm.trainings, 2):
        keys = _differing([one.config for one in pair], _MACHINE | _PLACES)
        keys += [what for name, what in _HASHED if len({one.hashes.get(name) for one in pair}) > 1]
        if keys:
            raise DataError(
                f"{pair[0].run} and {pair[1].run} are no two seeds of one arm, {arm.name}: they differ in {', '.join(keys)}; "
                "compare them apart"
            )


def _require_distinct_seeds(arm: PlannedArm) -> None:
    seen: dict[int | None, str] = {}
    for training in arm.trainings:
        if training.seed in seen:
            raise DataError(
                f"{seen[training.seed]} and {training.run} are both {arm.name} with seed {training.seed}: leave one of them out"
            )
        seen[training.seed] = training.run
