"""Turn what a user asks for (`agon eval`) into a measured protocol."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from agon.config import Settings
from agon.errors import ConfigError
from agon.evaluation.evaluate import Evaluated, Progress, Subject, choose_direction, evaluate, require_problems
from agon.evaluation.load import Opened, sampling_for
from agon.match.lineups import lineup_for
from agon.match.session import fit_problems
from agon.methods.registry import method_named
from agon.records import Direction, Lineup, Problem
from agon.tasks.data import TaskData

_DIRECTED = ("cascade", "blind-second")
_SEVERAL_DRAFTS = {"moa": 1, "majority": 2}


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be measured. None takes the default: see `measure`."""

    protocol: str | None = None
    direction: Literal["a-b", "b-a", "dev"] = "dev"
    adapter: Literal["a", "b", "base"] | None = None
    num_drafts: int | None = None
    split: Literal["test", "dev"] = "test"
    label: str | None = None


def check_ahead(wish: Wish, settings: Settings, task: TaskData, *, is_trained: bool) -> None:
    """Check what needs no model: that the wish does not contradict itself, and that there are problems for it.

    Raises:
        ConfigError: it does, or the direction cannot be chosen.
        DataError: there is no problem to measure with.
    """
    plan = _plan(wish, settings, is_trained=is_trained)
    _check_wish(wish, plan)
    if _chooses_direction(wish, plan) and not task.dev:
        raise ConfigError(_no_development(task))
    require_problems(task.test if wish.split == "test" else task.dev, task=task.name, split=wish.split)


class _Plan(NamedTuple):
    protocol: str
    has_pair: bool
    is_base: bool


def _plan(wish: Wish, settings: Settings, *, is_trained: bool) -> _Plan:
    method = method_named(settings.train.method) if is_trained else None
    has_pair = method is not None and len(method.adapters) == 2
    protocol = wish.protocol or ("cascade" if has_pair else "single")
    return _Plan(protocol, has_pair, is_base=method is None or wish.adapter == "base")


def measure(opened: Opened, wish: Wish, *, progress: Progress | None = None) -> Evaluated:
    """Measure a protocol of a run or a bare base.

    The default protocol is the one the pair was trained for: a cascade, or a single answer after a method with one adapter. The
    default direction is chosen on the development problems and said so in the result's notes.

    Raises:
        ConfigError: the wish contradicts itself, or asks a base or a one-adapter run for a pair.
    """
    plan = _plan(wish, opened.settings, is_trained=opened.checkpoint is not None)
    _check_wish(wish, plan)
    protocol, is_base = plan.protocol, plan.is_base
    direction, notes = _direction(opened, wish, plan)
    adapter = None if is_base else (wish.adapter or "a").upper()
    drafts = wish.num_drafts if wish.num_drafts is not None else _SEVERAL_DRAFTS.get(protocol, 1)
    lineup = lineup_for(protocol, direction=direction or "a-b", adapter=adapter, num_drafts=drafts, is_base=is_base)
    subject = Subject(
        label=wish.label or _default_label(opened, wish, lineup, protocol, direction),
        task=opened.task.name,
        protocol=protocol,
        lineup=lineup,
        split=wish.split,
        direction=direction,
        method=None if is_base else opened.settings.train.method,
        notes=(*opened.notes, *notes),
    )
    problems = opened.task.test if wish.split == "test" else opened.task.dev
    _require_room(opened, lineup, problems)
    return evaluate(
        opened.session,
        problems,
        subject,
        settings=opened.settings.evaluation,
        sampling=sampling_for(opened.settings),
        progress=progress,
    )


def _require_room(opened: Opened, lineup: Lineup, problems: Sequence[Problem]) -> None:
    """Check that a prompt which shows every draft's summary fits; for one summary the problems were chosen so."""
    num_drafts = len(lineup.drafters)
    if not lineup.has_challenge or num_drafts == 1:
        return
    limit, rollout = opened.settings.task.max_prompt_tokens, opened.settings.rollout
    kept, _ = fit_problems(opened.session, problems, rollout, max_prompt_tokens=limit, num_summaries=num_drafts)
    if len(kept) < len(problems):
        raise ConfigError(
            f"--drafts {num_drafts} leaves no room in the context of {opened.session.engine.context_length} tokens for "
            f"{len(problems) - len(kept)} of {len(problems)} problems: lower it, or rollout.max_summary_tokens"
        )


def _default_label(opened: Opened, wish: Wish, lineup: Lineup, protocol: str, direction: Direction | None) -> str:
    """Name a result by everything that tells it from another of the same run, so that none replaces another unasked."""
    player = direction or (lineup.drafters[0] or "base").lower()
    own = opened.settings
    parts = [
        _file_name(opened.task.source) if opened.task.name == "custom" else opened.task.name,
        wish.split,
        protocol,
        player,
        f"k{len(lineup.drafters)}" if len(lineup.drafters) > 1 and not lineup.second_counts else "",
        f"x{own.evaluation.samples}" if own.evaluation.samples > 1 else "",
        opened.checkpoint.name if opened.is_chosen_checkpoint and opened.checkpoint is not None else "",
    ]
    return "-".join(part for part in parts if part)


def _file_name(source: str) -> str:
    """Return the part of a data source's name that can stand in a file name."""
    return re.sub(r"[^A-Za-z0-9._]+", "_", Path(source).name)[:40].strip("._") or "custom"


def _check_wish(wish: Wish, plan: _Plan) -> None:
    protocol, has_pair, is_base = plan
    is_directed = protocol in _DIRECTED
    if is_directed and not has_pair and not is_base:
        raise ConfigError(
            f"--protocol {protocol} needs two trained adapters, but this run trained one: use self-cascade, moa or majority"
        )
    if is_directed and wish.adapter in ("a", "b"):
        raise ConfigError(f"--adapter {wish.adapter} does not go with --protocol {protocol}: choose with --direction")
    if is_directed and is_base and wish.direction != "dev":
        raise ConfigError(f"--direction {wish.direction} was asked for, but the base plays both roles: leave it out")
    if not is_directed and wish.direction in ("a-b", "b-a"):
        raise ConfigError(f"--direction {wish.direction} does not go with --protocol {protocol}: choose with --adapter")
    if is_base and wish.adapter in ("a", "b"):
        raise ConfigError(f"--adapter {wish.adapter} was asked for, but a base model has no adapters: leave it out")
    if wish.adapter == "b" and not has_pair:
        raise ConfigError("--adapter b was asked for, but this run trained adapter A alone: use --adapter a")


def _chooses_direction(wish: Wish, plan: _Plan) -> bool:
    return plan.protocol in _DIRECTED and not plan.is_base and wish.direction == "dev"


def _no_development(task: TaskData) -> str:
    raised = "" if task.is_test_alone else ", or raise task.dev_share"
    return f"the development split of {task.name} is empty: choose with --direction a-b or b-a{raised}"


def _direction(opened: Opened, wish: Wish, plan: _Plan) -> tuple[Direction | None, tuple[str, ...]]:
    if plan.protocol not in _DIRECTED or plan.is_base:
        return None, ()
    if wish.direction != "dev":
        return wish.direction, (f"direction {wish.direction} as asked for",)
    if not opened.task.dev:
        raise ConfigError(_no_development(opened.task))
    direction, note = choose_direction(
        opened.session,
        opened.task.dev,
        task=opened.task.name,
        settings=opened.settings.evaluation,
        sampling=sampling_for(opened.settings),
    )
    return direction, (note,)
