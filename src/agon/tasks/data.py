"""What a task gives: problems in three splits, and an account of every row that is not among them."""

from __future__ import annotations

from dataclasses import dataclass

from agon.records import Problem


@dataclass(frozen=True, slots=True)
class DroppedRow:
    """A row that was left out, and why.

    `number` counts from 1: lines of a JSONL file, records of any other source. It is None for a problem that has no row.
    """

    number: int | None
    reason: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class TaskData:
    """The problems of a task. No problem stands in two splits.

    An evaluation set such as math500 has a test split alone. `bad_rows` could not be used, `num_duplicates` rows said again what
    an earlier one of the same file says, `num_filtered` were left out by choice (level, yes/no answers).
    """

    name: str
    train: tuple[Problem, ...]
    dev: tuple[Problem, ...]
    test: tuple[Problem, ...]
    bad_rows: tuple[DroppedRow, ...] = ()
    num_duplicates: int = 0
    num_filtered: int = 0
    source: str = ""

    @property
    def splits(self) -> dict[str, tuple[Problem, ...]]:
        """The three splits by name."""
        return {"train": self.train, "dev": self.dev, "test": self.test}
