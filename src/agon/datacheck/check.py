"""Check a data set: what its rows are, whether its answers can be judged, what stands there twice, what leaks into what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from agon.config import Settings, TaskSettings
from agon.datacheck.findings import DataReport, Finding, Place
from agon.datacheck.golds import Progress, judge_golds, unreadable
from agon.datacheck.leaks import find_leaks
from agon.datacheck.rows import Item, Side, evaluation_items, read_sides
from agon.errors import DataError
from agon.gym_families import GYM_PREFIX
from agon.imported import is_own
from agon.records import Problem
from agon.tasks.loader import is_wanted, split_problems
from agon.tasks.rows import is_guessable
from agon.tasks.table import shown

# One answer to more than half of the problems pays a model for saying it always.
_DOMINANT_SHARE = 0.5
_DOMINANT_LEAST = 10
# Where no tokenizer is given. English has about four characters a token, formulas fewer.
_CHARACTERS_PER_TOKEN = 4


def check_data(
    settings: Settings,
    *,
    against: Mapping[str, TaskSettings] | None = None,
    question_columns: Sequence[str] = (),
    count_tokens: Callable[[str], int] | None = None,
    on_progress: Progress = lambda what, done, total: None,
) -> DataReport:
    """Check all rows of the task of `settings`, and its overlap with the evaluation sets of `against`, by their names.

    `question_columns` are what the column of a question may be called in those sets, besides the known names. Nothing is filtered first, but only problems that the settings keep are looked for in the task's own held-out splits. Without
    `count_tokens` a question is too long if it has more than four times `task.max_prompt_tokens` characters.

    Raises:
        ConfigError: a file or a column is not there.
        DataError: a file or the Hub cannot be read, or there is no row.
    """
    sides = read_sides(settings.task)
    if not any(side.rows for side in sides):
        raise DataError(f"{_names(sides)} has no rows: give a file with one problem a row")
    others = {name: evaluation_items(task, question_columns) for name, task in (against or {}).items()}
    parted = [_part_repeats(side) for side in sides]
    unique = [item for part in parted for item in part.first]
    splits = _split(sides, [part.first for part in parted], settings.task)
    train, held_out = splits["train"], {f"the {name} split": splits[name] for name in ("dev", "test")}
    findings = [
        *_unusable(sides),
        *_repeated([repeat for part in parted for repeat in part.repeats], settings),
        *_gold_faults(unique, settings, on_progress),
        *_answers(unique),
        *_too_long(unique, settings.task, count_tokens),
        *find_leaks(train, held_out, on_progress=on_progress),
        *find_leaks(unique, others, on_progress=on_progress),
    ]
    report = _counted(settings.task, sides, unique, splits)
    return replace(report, against={name: len(items) for name, items in others.items()}, findings=tuple(findings))


def _counted(
    settings: TaskSettings, sides: Sequence[Side], unique: Sequence[Item], splits: Mapping[str, Sequence[Item]]
) -> DataReport:
    golds = Counter(item.problem.gold for item in unique if item.problem.gold)
    return DataReport(
        task=settings.name,
        sources=tuple(side.source for side in sides),
        num_rows=sum(len(side.rows) for side in sides),
        num_problems=sum(row.problem is not None for side in sides for row in side.rows),
        num_unique=len(unique),
        splits={name: len(items) for name, items in splits.items()},
        num_filtered=len(unique) - sum(len(items) for items in splits.values()),
        num_guessable=sum(is_guessable(item.problem.gold) for item in unique),
        top_answer=max(golds.items(), key=lambda pair: pair[1], default=("", 0)),
        longest=max((len(item.problem.question) for item in unique), default=0),
    )


class _Repeat(NamedTuple):
    item: Item
    first: Item


class _Parted(NamedTuple):
    first: list[Item]
    repeats: list[_Repeat]


def _part_repeats(side: Side) -> _Parted:
    """Part the first row of every question from those that say it again."""
    first: dict[str, Item] = {}
    repeats: list[_Repeat] = []
    for item in side.items():
        earlier = first.setdefault(item.problem.id, item)
        if earlier is not item:
            repeats.append(_Repeat(item, earlier))
    return _Parted(list(first.values()), repeats)


def _split(sides: Sequence[Side], first: Sequence[list[Item]], settings: TaskSettings) -> dict[str, list[Item]]:
    """Split what the settings keep as a run would."""
    if any(side.split for side in sides):
        return {side.split: items for side, items in zip(sides, first, strict=True)}
    main: list[Item] | None = None
    test: list[Item] | None = None
    for side, items in zip(sides, first, strict=True):
        wanted = [item for item in items if is_wanted(item.problem, settings)]
        main, test = (main, wanted) if side.is_test else (wanted, test)
    splits = split_problems(_problems(main), _problems(test), settings)
    of_main = {item.problem.id: item for item in main or ()}
    of_test = of_main if test is None else {item.problem.id: item for item in test}
    homes = {"train": of_main, "dev": of_main, "test": of_test}
    return {name: [homes[name][one.id] for one in problems] for name, problems in splits._asdict().items()}


def _problems(items: list[Item] | None) -> list[Problem] | None:
    return None if items is None else [item.problem for item in items]


def _unusable(sides: Sequence[Side]) -> Iterable[Finding]:
    for side in sides:
        for row in side.rows:
            if row.problem is None:
                yield Finding("unusable", row.reason, Place(row.number, side.source, ""))


def _repeated(repeats: Sequence[_Repeat], settings: Settings) -> Iterable[Finding]:
    """Tell duplicates from conflicts. Answers that are written in two ways are no conflict if the verifier takes one for the other."""
    differing = [repeat for repeat in repeats if repeat.item.problem.gold != repeat.first.problem.gold]
    pairs = [(repeat.first.problem, repeat.item.problem.gold) for repeat in differing]
    verdicts = judge_golds(pairs, settings.verifier, settings.task.answer_style)
    is_equal = {repeat.item.place: verdict.is_correct for repeat, verdict in zip(differing, verdicts, strict=True)}
    for item, first in repeats:
        if is_equal.get(item.place, True):
            spelling = "" if item.problem.question == first.problem.question else ", in another spelling"
            # A generator has only so many problems: what it draws again is no fault of the data.
            is_drawn = settings.task.name.startswith(GYM_PREFIX) or is_own(settings.task.name)
            kind = "redrawn" if is_drawn else "duplicate"
            yield Finding(kind, f"the same question as row {first.row}{spelling}", item.place, first.place)
        else:
            golds = f"{shown(item.problem.gold)}, there {shown(first.problem.gold)}"
            yield Finding(
                "conflict", f"the same question as row {first.row}, but the answer is {golds}", item.place, first.place
            )


def _gold_faults(items: Sequence[Item], settings: Settings, on_progress: Progress) -> Iterable[Finding]:
    reasons = unreadable([item.problem for item in items], settings.verifier, on_progress=on_progress)
    with_gold = [item for item in items if item.problem.id not in reasons and item.problem.gold]
    pairs = [(item.problem, item.problem.gold) for item in with_gold]
    verdicts = judge_golds(pairs, settings.verifier, settings.task.answer_style, on_progress=on_progress)
    failed = {
        item.problem.id: f"{verdict.outcome}: {verdict.reason}"
        for item, verdict in zip(with_gold, verdicts, strict=True)
        if not verdict.is_correct
    }
    for item in items:
        if reason := reasons.get(item.problem.id):
            yield Finding("unreadable", f"the answer {shown(item.problem.gold)} {reason}", item.place)
        elif not item.problem.gold:
            yield Finding("unproven", "no program is given that passes the tests", item.place)
        elif reason := failed.get(item.problem.id):
            yield Finding("misjudged", f"the answer {shown(item.problem.gold)} is judged {reason}", item.place)


def _answers(items: Sequence[Item]) -> Iterable[Finding]:
    for item in items:
        if is_guessable(item.problem.gold):
            yield Finding("guessable", f"the answer is {shown(item.problem.gold)}", item.place)
    golds = Counter(item.problem.gold for item in items if item.problem.gold)
    for gold, count in golds.most_common(1):
        if count > _DOMINANT_SHARE * len(items) and len(items) >= _DOMINANT_LEAST:
            yield Finding("dominant", f"{count} of {len(items)} problems have the answer {shown(gold)}", None)


def _too_long(
    items: Sequence[Item], settings: TaskSettings, count_tokens: Callable[[str], int] | None
) -> Iterable[Finding]:
    limit = settings.max_prompt_tokens
    for item in items:
        question = item.problem.question
        size = len(question) / _CHARACTERS_PER_TOKEN if count_tokens is None else count_tokens(question)
        if size > limit:
            unit = "tokens" if count_tokens else f"tokens, counted as {_CHARACTERS_PER_TOKEN} characters each"
            reason = f"{len(question):,} characters, {size:,.0f} {unit}; task.max_prompt_tokens is {limit}"
            yield Finding("long", reason, item.place)


def _names(sides: Sequence[Side]) -> str:
    return " and ".join(side.source for side in sides)
