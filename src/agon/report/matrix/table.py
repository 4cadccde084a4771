"""The one table: a line for every arm and protocol, its rows of both directions beside each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agon.report.matrix.tree import Node, Tree, group_title, in_group_order, protocol_of, way_of

_WHOS: Mapping[str, str] = {
    "a": "first",
    "a-b": "first",
    "b": "second",
    "b-a": "second",
    "mean": "mean",
    "chosen": "chosen",
    "base": "only",
}
_STANDS = ("chosen", "mean", "only", "first", "second")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table. `own` is the row that stands for it: the arm's headline, else the chosen direction, else the mean.

    `rows` holds the rows of the line by place: `first` (A alone, or A drafts), `second` (B), `mean`, `chosen`, `only`.
    `tests` are the paired tests of `own`, by rival.
    """

    title: str
    arm: str
    group: str
    protocol: str
    way: str
    is_headline: bool
    is_rival: bool
    own: Node
    rows: Mapping[str, Node]
    tests: Mapping[str, Node] = field(default_factory=dict[str, Node])

    def accuracy(self, place: str) -> float | None:
        """Return a place's accuracy; None where the line has no such row."""
        row = self.rows.get(place)
        return None if row is None else row["accuracy"]


def table_lines(tree: Tree) -> list[Line]:
    """Return the table: groups in the page's order, arms in the tree's, the headline of an arm before its other protocols."""
    order = in_group_order([tree.group_of(row) for row in tree.rows.values()])
    arms = {name: at for at, name in enumerate(tree.arms)}
    lines = [_line(tree, places) for places in _places(tree)]
    return sorted(
        lines,
        key=lambda line: (order.index(tree.group_of(line.own)), arms.get(line.arm, len(arms)), not line.is_headline),
    )


def protocols_of(lines: list[Line]) -> list[str]:
    """Return the protocols of a table, each once."""
    return list(dict.fromkeys(line.protocol for line in lines))


def _places(tree: Tree) -> list[dict[str, Node]]:
    """Lay the rows of an arm and protocol beside each other; a row whose place is taken begins another line."""
    lines: dict[tuple[str, str, int], dict[str, Node]] = {}
    for row in tree.rows.values():
        place = _WHOS.get(row["who"], str(row["who"]))
        copy = 0
        while place in lines.setdefault((row["arm"], protocol_of(row), copy), {}):
            copy += 1
        lines[row["arm"], protocol_of(row), copy][place] = row
    return list(lines.values())


def _line(tree: Tree, rows: dict[str, Node]) -> Line:
    headline = next((row for row in rows.values() if tree.is_headline(row)), None)
    own = headline if headline is not None else rows[next(place for place in (*_STANDS, *rows) if place in rows)]
    tests = {rival: test for rival in tree.rivals if (test := tree.test_of(own["id"], rival)) is not None}
    return Line(
        title=own["title"],
        arm=own["arm"],
        group=group_title(tree.group_of(own)),
        protocol=protocol_of(own),
        way=way_of(own),
        is_headline=headline is not None,
        is_rival=own["id"] in tree.rivals,
        own=own,
        rows=rows,
        tests=tests,
    )
