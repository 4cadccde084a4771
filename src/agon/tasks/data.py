"""What a task gives: problems in three splits, and an account of every row that is not among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from agon.records import Problem


@dataclass(frozen=True, slots=True)
class DroppedRow:
    """A row that was left out, and why.

    `number` counts from 1: lines of a JSONL file, records of any other source. It is None for a problem that has no row.
    """

    number: int | None
    reason: str
    source: str = ""


class Origin(NamedTuple):
    """The row that a problem was read from."""

    number: int
    source: str


@dataclass(frozen=True, slots=True)
class TaskData:
    """The problems of a task. No problem stands in two splits.

    An evaluation set such as math500 has a test split alone (`is_test_alone`). `bad_rows` could not be used, `num_duplicates` rows said again what
    an earlier one of the same file says, `num_filtered` were left out by choice (level, yes/no answers). `origins` tells the row of a
    problem by its id; a generated problem has none.
    """

    name: str
    train: tuple[Problem, ...]
    dev: tuple[Problem, ...]
    test: tuple[Problem, ...]
    bad_rows: tuple[DroppedRow, ...] = ()
    num_duplicates: int = 0
    num_filtered: int = 0
    source: str = ""
    origins: Mapping[str, Origin] = field(default_factory=dict[str, Origin])
    is_test_alone: bool = False

    @property
    def splits(self) -> dict[str, tuple[Problem, ...]]:
        """The three splits by name."""
        return {"train": self.train, "dev": self.dev, "test": self.test}

    def without(self, reasons: Mapping[str, str]) -> TaskData:
        """Return the task without the problems whose ids are named, each listed among the bad rows with its reason."""
        kept = {name: tuple(one for one in problems if one.id not in reasons) for name, problems in self.splits.items()}
        dropped = [
            DroppedRow(origin.number if origin else None, reasons[one.id], origin.source if origin else one.task)
            for problems in self.splits.values()
            for one in problems
            if one.id in reasons
            for origin in [self.origins.get(one.id)]
        ]
        return replace(
            self, train=kept["train"], dev=kept["dev"], test=kept["test"], bad_rows=(*self.bad_rows, *dropped)
        )
