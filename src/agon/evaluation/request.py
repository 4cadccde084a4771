"""Turn what a user asks for (`agon eval`) into a measured protocol."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from agon.config import Settings
from agon.errors import ConfigError
from agon.evaluation.batches import Progress, require_problems
from agon.evaluation.evaluate import Evaluated, Subject, better_direction, direction_note, direction_scores, evaluate
from agon.evaluation.label import default_label
from agon.evaluation.load import Opened, prompts_of, sampling_for
from agon.evaluation.room import require_room, with_doubled_caps
from agon.evaluation.threshold import choose_threshold
from agon.match.lineups import lineup_for, trained_protocol
from agon.methods.registry import method_named
from agon.records import DIRECTIONS, Direction, Doubt, Lineup, Problem
from agon.runs.checkpoints import checkpoint_step
from agon.tasks.data import TaskData

# Played by two adapters in an order; the variants also by one player alone.
_DIRECTED = ("cascade", "blind-second")
_VARIANTS = ("placebo", "empty-draft", "answer-visible", "selective")
# These are deployed, so that their direction is chosen by their own accuracy; a control takes that of the cascade.
_DEPLOYED = ("cascade", "answer-visible", "selective")


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be measured. None takes the default: see `measure`.

    `has_doubled_cap` gives every completion twice the tokens. `is_from_label` tells that a label says it (`cascade-a-b`), beside which no
    option that says a part of it can be given: refusals then name the part of the label.
    """

    protocol: str | None = None
    direction: Literal["a-b", "b-a", "dev"] = "dev"
    adapter: Literal["a", "b", "base"] | None = None
    num_drafts: int | None = None
    split: Literal["test", "dev"] = "test"
    label: str | None = None
    layers: int | None = None
    doubt: Doubt | None = None
    threshold: float | Literal["dev"] | None = None
    has_doubled_cap: bool = False
    is_from_label: bool = False


class Measurement(NamedTuple):
    """What a wish comes to. Wishes that come to the same measure the same, and would file it under one default label."""

    protocol: str
    lineup: Lineup
    split: str
    has_doubled_cap: bool


class _Plan(NamedTuple):
    protocol: str
    has_pair: bool
    is_base: bool
    is_directed: bool


class Prepared(NamedTuple):
    """What is about to be measured, checked: with the caps that were asked for, and the problems of the split."""

    opened: Opened
    wish: Wish
    plan: _Plan
    problems: tuple[Problem, ...]


class _Chosen(NamedTuple):
    """What was settled before the measurement, what to say of it, and how it did on the development problems, if it was chosen there."""

    lineup: Lineup
    direction: Direction | None
    notes: tuple[str, ...]
    dev_accuracy: float | None


def check_ahead(wish: Wish, settings: Settings, task: TaskData, *, is_trained: bool) -> None:
    """Check what needs no model: that the wish does not contradict itself, and that there are problems for it.

    Raises:
        ConfigError: it does, or the direction or the threshold cannot be chosen.
        DataError: there is no problem to measure with.
    """
    plan = _plan(wish, settings, is_trained=is_trained)
    _check_wish(wish, plan, settings)
    if not task.dev:
        _require_no_choice(wish, plan, task)
    require_problems(task.test if wish.split == "test" else task.dev, task=task.name, split=wish.split)


def measure(opened: Opened, wish: Wish, *, progress: Progress | None = None) -> Evaluated:
    """Measure a protocol of a run or a bare base.

    The default protocol is the one the run was trained for: a cascade (with the answer shown, if it was), a self-cascade, or a single answer.
    The default direction and the default threshold of a selective cascade are chosen on the development problems, and said so in the
    result's notes.

    Raises:
        ConfigError: the wish contradicts itself, or asks a base or a one-adapter run for a pair.
    """
    return measure_prepared(prepare(opened, wish), progress=progress)


def measure_prepared(prepared: Prepared, *, progress: Progress | None = None) -> Evaluated:
    """Measure as `measure` does what `prepare` has checked."""
    opened, wish, plan, problems = prepared
    settings = opened.settings
    chosen = _choose(opened, wish, plan)
    subject = Subject(
        label=wish.label or _default_label(opened, wish, plan, chosen=chosen),
        task=opened.task.name,
        protocol=plan.protocol,
        lineup=chosen.lineup,
        split=wish.split,
        direction=chosen.direction,
        method=None if plan.is_base else settings.train.method,
        notes=(*opened.notes, *chosen.notes),
        dev_accuracy=chosen.dev_accuracy,
        has_doubled_cap=wish.has_doubled_cap,
        prompts=prompts_of(settings.task),
        checkpoint=_asked_step(opened) if not plan.is_base else None,
    )
    sampling = sampling_for(settings)
    return evaluate(
        opened.session, problems, subject, settings=settings.evaluation, sampling=sampling, progress=progress
    )


def prepare(opened: Opened, wish: Wish) -> Prepared:
    """Check what needs the model's context, too, and sample nothing: there is room for all that will be played.

    Raises:
        ConfigError: as `measure`.
    """
    plan = _plan(wish, opened.settings, is_trained=opened.checkpoint is not None)
    _check_wish(wish, plan, opened.settings)
    if not opened.task.dev:
        _require_no_choice(wish, plan, opened.task)
    problems = opened.task.test if wish.split == "test" else opened.task.dev
    is_chosen = _chooses_direction(wish, plan) or _chooses_threshold(wish, plan)
    played = [*problems, *opened.task.dev] if is_chosen and wish.split == "test" else problems
    if wish.has_doubled_cap:
        opened = with_doubled_caps(opened, played)
    require_room(opened, _lineup(wish, plan, "a-b" if plan.is_directed else None), played)
    return Prepared(opened, wish, plan, problems)


def possible_measurements(wish: Wish, settings: Settings, *, is_trained: bool) -> list[Measurement]:
    """Return what a wish may come to: one measurement, or one of each direction where that is still to be chosen."""
    plan = _plan(wish, settings, is_trained=is_trained)
    directions: tuple[Direction | None, ...] = (None,)
    if plan.is_directed:
        directions = DIRECTIONS if wish.direction == "dev" else (wish.direction,)
    return [
        Measurement(plan.protocol, _lineup(wish, plan, direction), wish.split, wish.has_doubled_cap)
        for direction in directions
    ]


def _plan(wish: Wish, settings: Settings, *, is_trained: bool) -> _Plan:
    method = method_named(settings.train.method) if is_trained else None
    has_pair = method is not None and method.has_pair
    protocol = wish.protocol or (trained_protocol(method) if method is not None else "single")
    is_base = method is None or wish.adapter == "base"
    is_directed = not is_base and (
        protocol in _DIRECTED or (protocol in _VARIANTS and has_pair and wish.adapter is None)
    )
    return _Plan(protocol, has_pair, is_base, is_directed)


def _lineup(wish: Wish, plan: _Plan, direction: Direction | None) -> Lineup:
    """The line-up as far as the wish says it: a threshold that is still to be chosen challenges everything."""
    return lineup_for(
        plan.protocol,
        direction=direction,
        adapter=_player(wish, plan),
        num_drafts=wish.num_drafts,
        is_base=plan.is_base,
        layers=1 if wish.layers is None else wish.layers,
        doubt=wish.doubt,
        threshold=wish.threshold if isinstance(wish.threshold, int | float) else math.inf,
    )


def _player(wish: Wish, plan: _Plan) -> str | None:
    """Who plays where there is no direction; None for the base, and where both adapters of a pair do."""
    if plan.is_base or (plan.protocol == "likeliest" and plan.has_pair and wish.adapter is None):
        return None
    return (wish.adapter or "a").upper()


def _asked_step(opened: Opened) -> int | None:
    path = opened.checkpoint
    return checkpoint_step(path) if opened.is_chosen_checkpoint and path is not None else None


def _default_label(opened: Opened, wish: Wish, plan: _Plan, *, chosen: _Chosen) -> str:
    return default_label(
        opened,
        chosen.lineup,
        protocol=plan.protocol,
        direction=chosen.direction,
        split=wish.split,
        has_doubled_cap=wish.has_doubled_cap,
    )


def _choose(opened: Opened, wish: Wish, plan: _Plan) -> _Chosen:
    """Settle the direction, and then the threshold, on the development problems where the wish leaves them open."""
    settings, sampling, task = opened.settings.evaluation, sampling_for(opened.settings), opened.task
    direction: Direction | None = None
    notes: list[str] = []
    accuracy: float | None = None
    # The cascade by which a direction is chosen is also the one by which its threshold is.
    session = opened.session.remembering() if _chooses_threshold(wish, plan) else opened.session
    if _chooses_direction(wish, plan):
        own: dict[Direction, Lineup] | None = None
        if plan.protocol in _DEPLOYED:
            own = {name: _lineup(wish, plan, name) for name in DIRECTIONS}
        scores = direction_scores(session, task.dev, task=task.name, settings=settings, sampling=sampling, lineups=own)
        direction = better_direction(scores)
        accuracy = scores[direction]
        notes.append(direction_note(scores, num_problems=len(task.dev)))
    elif plan.is_directed and wish.direction != "dev":
        direction = wish.direction
        notes.append(f"direction {direction} as asked for")
    lineup = _lineup(wish, plan, direction)
    if _chooses_threshold(wish, plan):
        best, note = choose_threshold(session, task.dev, lineup, task=task.name, settings=settings, sampling=sampling)
        lineup, accuracy = replace(lineup, threshold=best.value), best.accuracy
        notes.append(note if wish.split != "dev" else f"{note}; measured on these same problems, which flatters it")
    return _Chosen(lineup, direction, tuple(notes), accuracy)


def _chooses_direction(wish: Wish, plan: _Plan) -> bool:
    return plan.is_directed and wish.direction == "dev"


def _chooses_threshold(wish: Wish, plan: _Plan) -> bool:
    return plan.protocol == "selective" and wish.threshold in (None, "dev")


def _require_no_choice(wish: Wish, plan: _Plan, task: TaskData) -> None:
    """Check that nothing is to be chosen on development problems that are not there."""
    raised = "" if task.is_test_alone else ", or raise task.dev_share"
    empty = f"the development split of {task.name} is empty"
    if _chooses_direction(wish, plan):
        way = "-a-b or -b-a in its label" if wish.is_from_label else "--direction a-b or b-a"
        raise ConfigError(f"{empty}: choose with {way}{raised}")
    if _chooses_threshold(wish, plan):
        alone = "measure it alone, with a number as --threshold"
        raise ConfigError(f"{empty}: {alone if wish.is_from_label else 'give a number as --threshold'}{raised}")


def _check_wish(wish: Wish, plan: _Plan, settings: Settings) -> None:
    _check_players(wish, plan)
    if plan.protocol != "selective" and wish.threshold is not None:
        raise ConfigError(
            f"--threshold {wish.threshold} was asked for, but {plan.protocol} has none: only selective has one"
        )
    if plan.protocol in ("selective", "likeliest") and settings.evaluation.temperature == 0.0:
        raise ConfigError(
            "evaluation.temperature is 0, where every draft is as likely as any other and agrees with itself: "
            f"{plan.protocol} needs a temperature above 0"
        )
    # Whatever else the protocol cannot be asked for.
    _lineup(wish, plan, "a-b" if plan.is_directed else None)


def _check_players(wish: Wish, plan: _Plan) -> None:
    by_label = wish.is_from_label
    protocol = plan.protocol if by_label else f"--protocol {plan.protocol}"
    # In a label the value stands alone.
    direction = f"-{wish.direction}" if by_label else f"--direction {wish.direction}"
    adapter = f"-{wish.adapter}" if by_label else f"--adapter {wish.adapter}"
    needs_pair = plan.protocol in _DIRECTED
    if needs_pair and not plan.has_pair and not plan.is_base:
        raise ConfigError(
            f"{protocol} needs two trained adapters, but this run trained one: use self-cascade, moa or majority"
        )
    if needs_pair and wish.adapter in ("a", "b"):
        way = "-a-b or -b-a" if by_label else "--direction"
        raise ConfigError(f"{adapter} does not go with {protocol}: choose with {way}")
    if plan.is_base and wish.direction != "dev":
        raise ConfigError(f"{direction} was asked for, but the base plays every part: leave it out")
    if plan.protocol in _VARIANTS and wish.adapter in ("a", "b") and wish.direction != "dev":
        raise ConfigError(f"{direction} was asked for, but {adapter} plays both roles: leave one out")
    if not plan.is_directed and wish.direction in ("a-b", "b-a"):
        way = f"choose with {'-a or -b' if by_label else '--adapter'}" if plan.has_pair else "leave it out"
        raise ConfigError(f"{direction} does not go with {protocol}: {way}")
    if plan.is_base and wish.adapter in ("a", "b"):
        raise ConfigError(f"{adapter} was asked for, but a base model has no adapters: leave it out")
    if wish.adapter == "b" and not plan.has_pair:
        way = "-a" if by_label else "--adapter a"
        raise ConfigError(f"{adapter} was asked for, but this run trained adapter A alone: use {way}")
