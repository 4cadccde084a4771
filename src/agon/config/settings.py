"""All settings of a run, and the checks that need more than one of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pydantic import model_validator

from agon.config.alarms import AlarmSettings
from agon.config.names import did_you_mean
from agon.config.tables import (
    AdapterSettings,
    EvaluationSettings,
    ModelSettings,
    RewardSettings,
    RolloutSettings,
    Table,
    TaskSettings,
    TrackingSettings,
    TrainSettings,
    VerifierSettings,
)
from agon.gym_families import FAMILIES, GYM_PREFIX, LEFT_OUT
from agon.imported import is_importable_name, is_own
from agon.records import CODE_TASKS, METHODS, NAMED_TASKS, VERIFIERS
from agon.secrecy import REDACTED, holds_secret

# Beyond these, products and quotients of float32 numbers overflow or vanish.
_SMALLEST, _LARGEST = 1e-18, 1e18
# Methods with a length that is set, and stated in prompts.
_AIMED = ("lcpo-exact", "lcpo-max")
# The library that reads Hub data sets would take a local folder or an address as well.
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.\-]*(/[A-Za-z0-9][\w.\-]*)?")


class Settings(Table):
    """Everything a run is decided by."""

    model: ModelSettings = ModelSettings()
    """The frozen base."""
    adapter: AdapterSettings = AdapterSettings()
    """The two adapters."""
    task: TaskSettings = TaskSettings()
    """Problems."""
    rollout: RolloutSettings = RolloutSettings()
    """Sampling during training."""
    reward: RewardSettings = RewardSettings()
    """Reward weights."""
    train: TrainSettings = TrainSettings()
    """Loop and optimiser."""
    verifier: VerifierSettings = VerifierSettings()
    """Checkers."""
    alarms: AlarmSettings = AlarmSettings()
    """What is said of numbers that go bad, and what stops the run."""
    evaluation: EvaluationSettings = EvaluationSettings()
    """Measurement."""
    tracking: TrackingSettings = TrackingSettings()
    """Trackers."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, tree: Any) -> Any:
        """Give the answers of a code task the one style that they can have, where none is set."""
        task = tree.get("task") if isinstance(tree, dict) else None
        if isinstance(task, dict) and "answer_style" not in task and _is_code(task.get("name"), task.get("verifier")):
            return {**tree, "task": {**task, "answer_style": "code"}}
        return tree

    @model_validator(mode="after")
    def _check(self) -> Settings:
        for table, inner in self.model_dump().items():
            for key, value in inner.items():
                _require_usable(f"{table}.{key}", value)
        _require_source(self.task)
        _require_hub_name(self.task.hub)
        _require_known("task.verifier", self.task.verifier, ("auto", *VERIFIERS))
        _require_style(self.task)
        _require_shares(self.task)
        _require_known("train.method", self.train.method, METHODS)
        _require_length_target(self.train.method, self.reward.length_target)
        _require_groups(self.train)
        if self.rollout.top_p < 1.0:
            raise ValueError(
                f"rollout.top_p is {self.rollout.top_p}, but training needs 1.0: below it engine and learner logprobs "
                "disagree at every token; evaluation.top_p may be lower"
            )
        return self


def _require_usable(key: str, value: Any) -> None:
    if isinstance(value, float) and value and not _SMALLEST <= abs(value) <= _LARGEST:
        raise ValueError(
            f"{key} is {value!r}, which float32 arithmetic cannot use: stay within {_SMALLEST:g} and {_LARGEST:g}"
        )
    if isinstance(value, str) and not value.strip():
        raise ValueError(f"{key} is empty: give a value, or leave it out")
    for text in value if isinstance(value, tuple) else (value,):
        if isinstance(text, str):
            _require_no_secret(key, text)


def _require_no_secret(key: str, text: str) -> None:
    if REDACTED in text:
        raise ValueError(f"{key} is {text!r}: a secret that stood in it was not kept; give it again with --set {key}=…")
    if holds_secret(text):
        # The value is not shown.
        raise ValueError(
            f"{key} holds a secret (an access token, a password in an address, or what an environment variable such as HF_TOKEN holds), and "
            "settings are kept in the run folder: take it out; secrets belong in the environment"
        )


def _require_hub_name(name: str | None) -> None:
    if name is not None and not _HUB_NAME.fullmatch(name):
        raise ValueError(
            f"task.hub is {name!r}, which is no name of a Hub data set (OWNER/NAME): set task.path to a local file instead"
        )


def _require_source(task: TaskSettings) -> None:
    if task.name.startswith(GYM_PREFIX):
        _require_family(task.name)
    elif task.name != "custom":
        _require_known("task.name", task.name, (*NAMED_TASKS, "custom", f"{GYM_PREFIX}FAMILY"))
    elif task.path is not None and task.hub is not None:
        raise ValueError("task.path and task.hub are both set: the problems come from one of them")
    elif task.path is None and task.hub is None and task.test_path is None:
        raise ValueError('task.name is "custom": set task.path or task.hub (or task.test_path alone, to measure only)')


def _require_style(task: TaskSettings) -> None:
    is_code = _is_code(task.name, task.verifier)
    if is_code == (task.answer_style == "code"):
        return
    which = "are programs" if is_code else "are not programs"
    wanted = 'set it to "code"' if is_code else 'set it to "tags" or "boxed", or task.verifier to "code"'
    raise ValueError(f'task.answer_style is "{task.answer_style}", but the answers of {task.name} {which}: {wanted}')


def _is_code(name: Any, verifier: Any) -> bool:
    return verifier == "code" or (verifier in (None, "auto") and name in CODE_TASKS)


def _require_shares(task: TaskSettings) -> None:
    lowest, highest = task.difficulty_min, task.difficulty_max
    if lowest is not None and highest is not None and lowest > highest:
        raise ValueError(
            f"task.difficulty_min is {lowest:g}, above task.difficulty_max ({highest:g}): no problem could be kept"
        )
    if task.dev_share + task.test_share >= 1.0:
        raise ValueError(
            f"task.dev_share + task.test_share is {task.dev_share + task.test_share:g}: leave a share for training"
        )


def _require_length_target(method: str, target: int | None) -> None:
    if method in _AIMED and target is None:
        raise ValueError(
            f"train.method is {method!r}, which aims at reward.length_target, but that is not set: give a number of tokens"
        )
    if target is not None and method in METHODS and method not in _AIMED:
        raise ValueError(
            f"reward.length_target is {target}, which the method {method!r} does not aim at: leave it out, or choose "
            f"{' or '.join(_AIMED)}"
        )


def _require_groups(train: TrainSettings) -> None:
    if train.group_size < 2:
        raise ValueError(
            f"train.group_size is {train.group_size}, but the group mean is the baseline: set it to 2 or more"
        )
    rollouts = train.problems_per_step * train.group_size
    if rollouts % train.minibatches:
        divisors = [str(number) for number in range(1, rollouts + 1) if rollouts % number == 0][:3]
        raise ValueError(
            f"train.minibatches is {train.minibatches}, which does not divide the {rollouts} rollouts of a stream "
            f"({train.problems_per_step} problems x {train.group_size}): try {', '.join(divisors[:-1])} or {divisors[-1]}"
        )


def _require_known(key: str, name: str, known: Iterable[str]) -> None:
    """Refuse a name that is neither known nor has the form module:NAME."""
    known = tuple(known)
    if is_own(name):
        if not is_importable_name(name):
            raise ValueError(f"{key} is {name!r}, which is no module:NAME: write it as in package.module:NAME")
    elif name not in known:
        raise ValueError(f"{key} is {name!r}, which is not known{did_you_mean(name, known)}; known: {', '.join(known)}")


def _require_family(name: str) -> None:
    family = name.removeprefix(GYM_PREFIX)
    if family in LEFT_OUT:
        raise ValueError(f"task.name is {name!r}, which is left out ({LEFT_OUT[family]}): take another family")
    if family not in FAMILIES:
        raise ValueError(
            f"task.name is {name!r}, which is not known{did_you_mean(family, FAMILIES)}; "
            f"`agon data list --json` names the {len(FAMILIES)} families"
        )
