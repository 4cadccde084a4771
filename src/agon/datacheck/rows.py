"""All rows of a task as they are read: nothing dropped, filtered or split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agon.config import TaskSettings
from agon.datacheck.findings import MAX_TEXT, Place
from agon.errors import DataError
from agon.records import Problem
from agon.tasks.countdown import countdown_splits
from agon.tasks.hub import HubDataError
from agon.tasks.sources import ReadRow, open_sources, read_problems, read_questions


class Item(NamedTuple):
    """A problem and the row that it was read from."""

    row: int
    source: str
    problem: Problem

    @property
    def place(self) -> Place:
        """Where it stands, its question shortened if it is very long."""
        text = self.problem.question
        return Place(self.row, self.source, text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…")


class Side(NamedTuple):
    """The rows of one source. `is_test` says that they are the test split as they are, `split` names that of generated problems."""

    source: str
    rows: tuple[ReadRow, ...]
    is_test: bool
    split: str = ""

    def items(self) -> Iterator[Item]:
        """Yield the rows that are problems."""
        return (Item(row.number, self.source, row.problem) for row in self.rows if row.problem is not None)


def read_sides(settings: TaskSettings) -> list[Side]:
    """Read every row of a task.

    Raises:
        ConfigError: a file or a column is not there.
        DataError: a file or the Hub cannot be read.
    """
    if settings.name == "countdown-lite" and settings.path is None:
        return [_generated(name, problems) for name, problems in countdown_splits().items()]
    sources = open_sources(settings)
    tables = [(sources.main, False), (sources.test, True)]
    return [
        Side(table.source, tuple(read_problems(table, settings)), is_test)
        for table, is_test in tables
        if table is not None
    ]


def evaluation_items(settings: TaskSettings, question_columns: Sequence[str] = ()) -> list[Item]:
    """Return what a task measures with: its test split if it has one of its own, else everything.

    Nothing but the questions is needed to find copies, so a file without answers will do. `question_columns` are names that its column
    may have besides those that are known.

    Raises:
        ConfigError: a file is not there, or no column of it could hold a question.
        DataError: it cannot be had, or has no problem, so that nothing could be found in it.
    """
    sides = _question_sides(settings, question_columns)
    items = [item for side in sides for item in side.items()]
    if not items:
        reasons = [f"; row {row.number}: {row.reason}" for side in sides for row in side.rows[:1]]
        raise DataError(
            f"{' and '.join(side.source for side in sides)} has no problem to compare with{''.join(reasons)}: give usable rows"
        )
    return items


def _question_sides(settings: TaskSettings, columns: Sequence[str]) -> list[Side]:
    if settings.name == "countdown-lite" and settings.path is None:
        return [side for side in read_sides(settings) if side.is_test]
    try:
        sources = open_sources(settings)
    except HubDataError as error:
        raise DataError(f"{error.why} give a local file in place of the name: --against FILE") from None
    table = sources.test or sources.main
    assert table is not None, "a task has a source"
    return [Side(table.source, tuple(read_questions(table, settings.name, columns)), is_test=True)]


def _generated(name: str, problems: tuple[Problem, ...]) -> Side:
    rows = tuple(ReadRow(number, problem) for number, problem in enumerate(problems, 1))
    return Side(f"generated ({name})", rows, is_test=name == "test", split=name)
