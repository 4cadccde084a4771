"""From settings to problems: open the source, read the rows, drop what cannot be used, split by content."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from agon.config import TaskSettings
from agon.errors import DataError
from agon.records import Problem
from agon.tasks.countdown import countdown_splits
from agon.tasks.data import DroppedRow, Origin, TaskData
from agon.tasks.named import LEVEL_COLUMNS
from agon.tasks.rows import UnusableRow, is_guessable
from agon.tasks.sources import open_sources, read_problems, refuse_unused
from agon.tasks.table import Table

_SHOWN = 3


def load_task(settings: TaskSettings) -> TaskData:
    """Load the problems of a task in three splits.

    The hash of a question decides its split, so that it is the same in every run and survives a file that grows. Official test
    splits and `task.test_path` are the test split as they are; the rest is then split into train and dev. A split that would be
    empty gets one problem if there are three or more.

    Raises:
        ConfigError: a setting cannot be used: no such file, a column that is not there.
        DataError: nothing is left, every answer is the same, a problem stands in train and in test, or the Hub cannot be reached.
    """
    if settings.name == "countdown-lite" and settings.path is None:
        return _generated(settings)
    sources = open_sources(settings)
    if sources.test is not None:
        refuse_unused(settings, ("test_share",), f"the test split is {sources.test.source}")
    main = _read(sources.main, settings) if sources.main else None
    test = _read(sources.test, settings) if sources.test else None
    both = [part for part in (main, test) if part is not None]
    if main is not None and test is not None:
        _refuse_overlap(main, test)
    _refuse_unusable(both, settings)
    splits = split_problems(main.problems if main else None, test.problems if test else None, settings)
    return TaskData(
        name=settings.name,
        train=_at_most(splits.train, settings.max_train),
        dev=splits.dev,
        test=splits.test,
        bad_rows=tuple(row for part in both for row in part.bad),
        num_duplicates=sum(part.num_duplicates for part in both),
        num_filtered=sum(part.num_filtered for part in both),
        source=" + ".join(part.source for part in both),
        origins={id_: Origin(number, part.source) for part in both for id_, number in part.row_of.items()},
        is_test_alone=main is None,
    )


def drop_long(
    problems: Sequence[Problem],
    count_tokens: Callable[[Problem], int],
    limit: int,
    *,
    origins: Mapping[str, Origin] | None = None,
) -> tuple[tuple[Problem, ...], tuple[DroppedRow, ...]]:
    """Part the problems whose prompt has more than `limit` tokens from the others, and say which they are: by their rows, where
    `origins` names these.

    Units: tokens, as `count_tokens` counts them.
    """
    kept: list[Problem] = []
    dropped: list[DroppedRow] = []
    for problem in problems:
        num_tokens = count_tokens(problem)
        if num_tokens <= limit:
            kept.append(problem)
        else:
            reason = f"the prompt of problem {problem.id} has {num_tokens} tokens, and {limit} fit"
            origin = (origins or {}).get(problem.id)
            dropped.append(
                DroppedRow(origin.number if origin else None, reason, origin.source if origin else problem.task)
            )
    return tuple(kept), tuple(dropped)


def _generated(settings: TaskSettings) -> TaskData:
    unused = (
        "test_path",
        "hub",
        "hub_config",
        "hub_split",
        "verifier",
        "question_field",
        "answer_field",
        "difficulty_min",
        "difficulty_max",
        "num_generated",
        "generator_seed",
        "dev_share",
        "test_share",
    )
    refuse_unused(settings, unused, "countdown-lite is generated, with its own splits")
    splits = countdown_splits()
    return TaskData(
        settings.name, splits["train"][: settings.max_train], splits["dev"], splits["test"], source="generated"
    )


@dataclass
class _Part:
    """The problems of one source, with the row that each came from."""

    source: str
    problems: list[Problem] = field(default_factory=list[Problem])
    row_of: dict[str, int] = field(default_factory=dict[str, int])
    gold_of: dict[str, str] = field(default_factory=dict[str, str])
    bad: list[DroppedRow] = field(default_factory=list[DroppedRow])
    num_duplicates: int = 0
    num_filtered: int = 0
    num_without_level: int = 0


class Splits(NamedTuple):
    """The problems of a task by what they are for."""

    train: tuple[Problem, ...]
    dev: tuple[Problem, ...]
    test: tuple[Problem, ...]


def _read(table: Table, settings: TaskSettings) -> _Part:
    part = _Part(table.source)
    for number, problem, reason in read_problems(table, settings):
        try:
            if problem is None:
                raise UnusableRow(reason)
            _add(part, problem, number, settings)
        except UnusableRow as unusable:
            part.bad.append(DroppedRow(number, str(unusable), table.source))
    return part


def _add(part: _Part, problem: Problem, number: int, settings: TaskSettings) -> None:
    first = part.row_of.get(problem.id)
    if first is not None:
        if part.gold_of[problem.id] != problem.gold:
            raise UnusableRow(f"the same question as row {first}, but another answer")
        part.num_duplicates += 1
        return
    part.row_of[problem.id], part.gold_of[problem.id] = number, problem.gold
    part.num_without_level += problem.level is None
    if is_wanted(problem, settings):
        part.problems.append(problem)
    else:
        part.num_filtered += 1


def is_wanted(problem: Problem, settings: TaskSettings) -> bool:
    """Tell whether the settings keep a problem: by its level, and unless its answer can be guessed."""
    if settings.drop_yes_no and is_guessable(problem.gold):
        return False
    lowest, highest = settings.difficulty_min, settings.difficulty_max
    if lowest is None and highest is None:
        return True
    level = problem.level
    return level is not None and (lowest is None or level >= lowest) and (highest is None or level <= highest)


def _refuse_overlap(main: _Part, test: _Part) -> None:
    shared = [problem.id for problem in test.problems if problem.id in main.row_of]
    if shared:
        pairs = ", ".join(f"row {test.row_of[id_]} is row {main.row_of[id_]}" for id_ in shared[:_SHOWN])
        more = f" and {len(shared) - _SHOWN} more" if len(shared) > _SHOWN else ""
        raise DataError(
            f"{len(shared)} problems stand in both {test.source} and {main.source} ({pairs}{more}): take them out of one"
        )


def _refuse_unusable(parts: Sequence[_Part], settings: TaskSettings) -> None:
    problems = [problem for part in parts for problem in part.problems]
    source = " and ".join(part.source for part in parts)
    if not problems:
        reasons = [f"row {row.number}: {row.reason}" for part in parts for row in part.bad[:_SHOWN]]
        num_filtered = sum(part.num_filtered for part in parts)
        if num_filtered:
            reasons.append(f"{num_filtered} left out by task.difficulty_min, difficulty_max and drop_yes_no")
        if num_filtered and all(part.num_without_level == len(part.row_of) for part in parts):
            reasons.append(f"no row has a level ({' or '.join(LEVEL_COLUMNS)})")
        raise DataError(f"no problem is left of {source} ({'; '.join(reasons) or 'it has no rows'}): give usable rows")
    golds = {problem.gold for problem in problems}
    if len(golds) == 1 and golds != {""} and len(problems) > 1 and settings.name != "countdown-lite":
        raise DataError(
            f"all {len(problems)} problems of {source} have the answer {ascii(golds.pop())[:60]}: a constant answer would be right, "
            "so nothing can be learned; check task.answer_field"
        )


def split_problems(main: Sequence[Problem] | None, test: Sequence[Problem] | None, settings: TaskSettings) -> Splits:
    """Split problems, no two of them the same, by the hash of their content. `test`, if given, is the test split as it is."""
    tested = tuple(test or ())
    if main is None:
        return Splits((), (), tested)
    test_share = settings.test_share if test is None else 0.0
    position = {problem.id: int(problem.id, 16) / 16 ** len(problem.id) for problem in main}
    in_order = sorted(position, key=position.__getitem__)
    chosen = {id_ for id_ in in_order if position[id_] < test_share}
    held = {id_ for id_ in in_order if test_share <= position[id_] < test_share + settings.dev_share}
    if len(in_order) >= _SHOWN:
        if test_share and not chosen:
            chosen = {in_order[0]}
        rest = [id_ for id_ in in_order if id_ not in chosen]
        held = (held - chosen) or ({rest[0]} if settings.dev_share else set())
    return Splits(
        train=_pick(main, lambda id_: id_ not in chosen and id_ not in held),
        dev=_pick(main, held.__contains__),
        test=tested or _pick(main, chosen.__contains__),
    )


def _pick(problems: Iterable[Problem], is_in: Callable[[str], bool]) -> tuple[Problem, ...]:
    return tuple(problem for problem in problems if is_in(problem.id))


def _at_most(problems: tuple[Problem, ...], limit: int | None) -> tuple[Problem, ...]:
    """The first `limit` by hash, in their own order: which they are does not depend on the order of the file."""
    if limit is None or len(problems) <= limit:
        return problems
    chosen = {problem.id for problem in sorted(problems, key=lambda problem: problem.id)[:limit]}
    return tuple(problem for problem in problems if problem.id in chosen)
