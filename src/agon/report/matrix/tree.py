"""A comparison's tree, as `agon compare --json` prints it, with the look-ups that a page needs.

The report does not import the package that makes the tree: it reads plain JSON, as anyone else would.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Node = Mapping[str, Any]

_UNCHOSEN = "not the chosen direction"

FORMAT_VERSION = 1
GROUPS: Mapping[str, str] = {
    "base": "untrained base",
    "baseline": "baselines",
    "exchange": "exchange",
    "control": "controls",
    "normaliser": "advantage normalisers",
    "length": "length control",
    "init": "initialisations",
}
"""What arms are there for, in the order of the page. Other groups stand after these, under their own names."""
MAX_KEY_ARMS = 4
"""Most arms whose curves are drawn, and whose points are named first, before the reader of the page asks for others."""


@dataclass(frozen=True, slots=True)
class Tree:
    """The tree's parts. `rows` is by id; `rivals` are the rows that others were tested against, in the order of the tests."""

    subject: Node
    arms: Mapping[str, Node]
    rows: Mapping[str, Node]
    tests: Sequence[Node]
    panel_2x2: Node | None
    init_panel: Sequence[Node]
    frontier: Sequence[Node]
    notes: Sequence[str]

    @classmethod
    def of(cls, content: Node) -> Tree:
        """Take the parts of a comparison.

        Raises:
            ValueError: another format version, or a part that names a row which the tree does not hold.
        """
        version = content.get("format_version")
        if version != FORMAT_VERSION:
            raise ValueError(f"the comparison is of format version {version!r}; this report draws {FORMAT_VERSION}")
        tree = cls(
            subject=content["subject"],
            arms={arm["name"]: arm for arm in content["arms"]},
            rows={row["id"]: row for row in content["rows"]},
            tests=content["tests"],
            panel_2x2=content["panel_2x2"],
            init_panel=content["init_panel"],
            frontier=content["frontier"],
            notes=content["notes"],
        )
        unknown = [name for name in tree._named_rows() if name not in tree.rows]
        if unknown:
            raise ValueError(f"the comparison names the row {unknown[0]!r}, which it does not hold")
        strays = [row["id"] for row in tree.rows.values() if row["arm"] not in tree.arms]
        if strays:
            raise ValueError(f"the comparison holds the row {strays[0]!r}, but not its arm")
        return tree

    @property
    def rivals(self) -> tuple[str, ...]:
        """Rows that others were tested against."""
        return tuple(dict.fromkeys(test["second"] for test in self.tests))

    @property
    def key_arms(self) -> tuple[str, ...]:
        """Trained arms that a page shows at first: the rivals', then the 2x2 panel's from its last cell, then any, up to four."""
        rivals = [self.rows[rival]["arm"] for rival in self.rivals]
        panel = [cell["arm"] for cell in reversed(self.panel_2x2["cells"])] if self.panel_2x2 is not None else []
        trained = [name for name, arm in self.arms.items() if arm["runs"]]
        return tuple(name for name in dict.fromkeys((*rivals, *panel, *trained)) if name in trained)[:MAX_KEY_ARMS]

    @property
    def num_trainings(self) -> int:
        """Runs of all arms, each once."""
        return len({run["run"] for arm in self.arms.values() for run in arm["runs"]})

    def test_of(self, first: str, second: str) -> Node | None:
        """Return the paired test of two rows."""
        return next((test for test in self.tests if (test["first"], test["second"]) == (first, second)), None)

    def group_of(self, row: Node) -> str:
        """Name the group of a row's arm."""
        return group_of_arm(self.arms[row["arm"]])

    def is_headline(self, row: Node) -> bool:
        """Whether a row stands for its arm."""
        return self.arms[row["arm"]]["headline"] == row["id"]

    def headlines(self) -> list[Node]:
        """Return the rows that stand for their arms, in the order of the arms."""
        return [self.rows[arm["headline"]] for arm in self.arms.values() if arm["headline"] is not None]

    def _named_rows(self) -> list[str]:
        cells = self.panel_2x2["cells"] if self.panel_2x2 is not None else ()
        names = [
            *(arm["headline"] for arm in self.arms.values()),
            *(test[end] for test in self.tests for end in ("first", "second")),
            *(point["row"] for point in self.frontier),
            *(cell["row"] for cell in (*cells, *self.init_panel)),
        ]
        return [name for name in names if name is not None]


def group_of_arm(arm: Node) -> str:
    """Name an arm's group; an arm that no matrix has put into one stands under its method."""
    return "base" if arm["method"] is None else str(arm["group"] or arm["method"])


def protocol_of(row: Node) -> str:
    """Name a row's protocol, with the number of drafts where there are several, and what else tells it from others."""
    name, label = str(row["protocol"]), str(row.get("label", ""))
    cap = "doubled cap" if row.get("has_doubled_cap") else ""
    drafts = f"{row['drafts']} drafts" if row["drafts"] > 1 else ""
    # The label of an evaluation begins with its protocol.
    named = (label,) if label.startswith(name) else (name, drafts, label)
    return ", ".join(part for part in (*named, cap) if part)


def way_of(row: Node) -> str:
    """Say who played: a direction, an adapter, a mean over both, or nothing where there is no choice."""
    if row["who"] in ("a-b", "b-a"):
        way = "A drafts, B challenges" if row["who"] == "a-b" else "B drafts, A challenges"
        return f"{way}, {_UNCHOSEN}" if row.get("is_unchosen") else way
    return {
        "a": "A",
        "b": "B",
        "base": "",
        "chosen": "chosen direction",
        "mean": "both directions" if row["direction"] == "mean" else "A and B",
    }.get(row["who"], str(row["who"]))


def title_of(row: Node, title: str | None = None) -> str:
    """Name a row's arm (or what else is its `title`) where nothing else stands beside it: with a mark if its direction was not chosen."""
    name = str(row["title"]) if title is None else title
    return f"{name} ({_UNCHOSEN})" if row.get("is_unchosen") else name


def detail_of(row: Node) -> str:
    """Say what a row measures and who played, for a place that names its arm."""
    return ", ".join(part for part in (protocol_of(row), way_of(row)) if part)


def name_of(row: Node) -> str:
    """Name a row in one line."""
    return f"{row['title']}: {detail_of(row)}"


def in_group_order(groups: Sequence[str]) -> list[str]:
    """Sort names of groups as the page shows them: the known ones first, then others as they come."""
    known = list(GROUPS)
    found = list(dict.fromkeys(groups))
    place = {name: known.index(name) if name in known else len(known) for name in found}
    return sorted(found, key=place.__getitem__)


def group_title(group: str) -> str:
    """Name a group for people."""
    return GROUPS.get(group, group)
