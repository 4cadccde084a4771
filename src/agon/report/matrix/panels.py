"""The 2x2 panel (competition x exchange) and the panel of initialisations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agon.report.matrix.forest import Forest, ForestRow, Marker, Scale, scale_of
from agon.report.matrix.tree import Node, Tree, protocol_of, title_of, way_of

# What an arm that stands for neither competition nor exchange is, beside arms that train a pair.
_WITHOUT_EITHER: Mapping[str, str] = {
    "independent": "two adapters that never meet",
    "grpo": "one adapter with the rollouts of both",
}


@dataclass(frozen=True, slots=True)
class Panel2x2:
    """The four cells by (exchange, competition), and the contrasts between them."""

    cells: Mapping[tuple[bool, bool], PanelCell]
    effects: Forest | None


@dataclass(frozen=True, slots=True)
class PanelCell:
    """An arm in a cell; `row` None where it was not measured."""

    arm: str
    detail: str
    row: Node | None


@dataclass(frozen=True, slots=True)
class InitLine:
    """One initialisation."""

    title: str
    settings: Mapping[str, Any]
    row: Node | None
    distance_first: float | None
    distance_last: float | None


def panel_2x2(tree: Tree) -> Panel2x2 | None:
    """Return the panel; None where the comparison has none."""
    panel = tree.panel_2x2
    if panel is None:
        return None
    cells = {(bool(cell["exchange"]), bool(cell["competition"])): _cell(tree, cell) for cell in panel["cells"]}
    return Panel2x2(cells, _effects(panel["effects"]))


def init_lines(tree: Tree) -> list[InitLine]:
    """Return the initialisations, in the tree's order."""
    return [_init_line(node, None if node["row"] is None else tree.rows[node["row"]]) for node in tree.init_panel]


def init_scale(lines: Sequence[InitLine]) -> Scale | None:
    """Return the scale that holds the intervals of all initialisations."""
    rows = [line.row for line in lines if line.row is not None]
    return scale_of([row["interval"][end] for row in rows for end in ("low", "high")]) if rows else None


def _init_line(node: Node, row: Node | None) -> InitLine:
    return InitLine(
        title=node["title"] if row is None else title_of(row, node["title"]),
        settings=node["settings"],
        row=row,
        distance_first=node["distance_first"],
        distance_last=node["distance_last"],
    )


def _cell(tree: Tree, cell: Node) -> PanelCell:
    row = None if cell["row"] is None else tree.rows[cell["row"]]
    arm = tree.arms.get(cell["arm"])
    is_plain = not (cell["competition"] or cell["exchange"])
    kind = _WITHOUT_EITHER.get(cell["arm"], "") if is_plain else ""
    detail = "" if row is None else ", ".join(part for part in (protocol_of(row), way_of(row), kind) if part)
    return PanelCell(cell["arm"] if arm is None else arm["title"], detail, row)


def _effects(effects: Sequence[Node]) -> Forest | None:
    if not effects:
        return None
    rows = tuple(
        ForestRow(effect["name"], "", effect["difference"], effect["interval"]["low"], effect["interval"]["high"])
        for effect in effects
    )
    scale = scale_of([0.0, *(end for row in rows for end in (row.low, row.high))])
    return Forest(
        "What each adds", "pass@1, difference on the same problems", rows, scale, (Marker("no difference", 0.0),)
    )
