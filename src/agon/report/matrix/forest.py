"""Intervals below each other: accuracies with the rivals' lines, and paired differences with the line of no difference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agon.report.formats import p_value
from agon.report.matrix.tree import Node, Tree, detail_of, name_of, title_of

_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_MAX_TICKS = 7


@dataclass(frozen=True, slots=True)
class Scale:
    """A stretch of the number line with round ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def place(self, value: float) -> float:
        """Return where a value stands, in percent of the width; values outside stand at the end."""
        return round(100 * min(1.0, max(0.0, (value - self.low) / (self.high - self.low))), 2)

    def width(self, low: float, high: float) -> float:
        """Return the length of a stretch in percent of the width."""
        return round(self.place(high) - self.place(low), 2)


@dataclass(frozen=True, slots=True)
class ForestRow:
    """One interval. `dots` are the single trainings' values; `reach` is half the width of what the test cannot see."""

    label: str
    detail: str
    value: float
    low: float
    high: float
    dots: tuple[float, ...] = ()
    reach: float | None = None
    is_filled: bool = True
    aside: str = ""


@dataclass(frozen=True, slots=True)
class Marker:
    """A vertical line through all rows."""

    label: str
    value: float


@dataclass(frozen=True, slots=True)
class Forest:
    """One plot."""

    title: str
    unit: str
    rows: tuple[ForestRow, ...]
    scale: Scale
    markers: tuple[Marker, ...]


def scale_of(values: Sequence[float]) -> Scale:
    """Return the shortest stretch between round numbers that holds all values, with at most seven ticks."""
    low, high = min(values), max(values)
    step = next((step for step in _STEPS if (high - low) / step <= _MAX_TICKS - 2), _STEPS[-1])
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    last = max(last, first + 1)
    return Scale(
        round(first * step, 10), round(last * step, 10), tuple(round(at * step, 10) for at in range(first, last + 1))
    )


def accuracy_forest(tree: Tree) -> Forest | None:
    """Return the arms' headline rows and the rows of the untrained base, best first; None where nothing was measured."""
    shown = [*tree.headlines(), *(row for row in tree.rows.values() if tree.group_of(row) == "base")]
    by_id = {row["id"]: row for row in (*shown, *(tree.rows[rival] for rival in tree.rivals))}
    rows = [_accuracy_row(row) for row in sorted(by_id.values(), key=lambda row: -row["accuracy"])]
    if not rows:
        return None
    ends = [end for row in rows for end in (row.low, row.high, *row.dots)]
    markers = tuple(Marker(_marked(tree, tree.rows[rival]), tree.rows[rival]["accuracy"]) for rival in tree.rivals)
    return Forest("Accuracy", "pass@1, share of problems", tuple(rows), scale_of(ends), markers)


def difference_forests(tree: Tree) -> list[Forest]:
    """Return for every rival the paired differences to it, best first."""
    return [_difference_forest(tree, rival) for rival in tree.rivals]


def _accuracy_row(row: Node) -> ForestRow:
    dots = tuple(result["accuracy"] for result in row["per_seed"]) if len(row["per_seed"]) > 1 else ()
    low, high = row["interval"]["low"], row["interval"]["high"]
    return ForestRow(row["title"], detail_of(row), row["accuracy"], low, high, dots)


def _marked(tree: Tree, row: Node) -> str:
    """Name a rival by its arm, and where it is no row that stands for its arm by what it is of it."""
    return title_of(row) if tree.is_headline(row) else f"{row['title']} ({detail_of(row)})"


def _difference_forest(tree: Tree, rival: str) -> Forest:
    tests = sorted((test for test in tree.tests if test["second"] == rival), key=lambda test: -test["difference"])
    rows = tuple(
        ForestRow(
            label=tree.rows[test["first"]]["title"],
            detail=detail_of(tree.rows[test["first"]]),
            value=test["difference"],
            low=test["interval"]["low"],
            high=test["interval"]["high"],
            reach=test["min_detectable"],
            is_filled=test["p_holm"] < 0.05,
            aside=f"p {p_value(test['p_holm'])}",
        )
        for test in tests
    )
    ends = [0.0, *(end for row in rows for end in (row.low, row.high))]
    reach = max((row.reach for row in rows if row.reach is not None), default=0.0)
    scale = scale_of([*ends, -reach, reach])
    title = f"Difference to {name_of(tree.rows[rival])}"
    return Forest(title, "pass@1 minus the rival's, on the same problems", rows, scale, (Marker("no difference", 0.0),))
