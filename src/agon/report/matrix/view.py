"""Everything that the templates of the matrix parts show, worked out once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agon.report.collect import Run
from agon.report.matrix.arms import ArmBudget, ArmRuns, arm_budgets, arms_of
from agon.report.matrix.bands import bands_json
from agon.report.matrix.forest import Forest, Scale, accuracy_forest, difference_forests
from agon.report.matrix.frontier import frontier_json
from agon.report.matrix.panels import InitLine, Panel2x2, init_lines, init_scale, panel_2x2
from agon.report.matrix.table import Line, protocols_of, table_lines
from agon.report.matrix.tree import Node, Tree
from agon.report.notes import Note, NotedRow, notes_once


@dataclass(frozen=True, slots=True)
class MatrixView:
    """The parts of the page, in its order. Parts that the comparison has nothing for are None or empty."""

    tree: Tree
    trained: Sequence[ArmRuns]
    lines: Sequence[Line]
    protocols: Sequence[str]
    legend: Sequence[str]
    kinds: Sequence[str]
    notes: Sequence[Note]
    accuracies: Forest | None
    differences: Sequence[Forest]
    frontier: Mapping[str, Any]
    exchanges: Sequence[Node]
    panel: Panel2x2 | None
    inits: Sequence[InitLine]
    init_scale: Scale | None
    curves: Mapping[str, Any]
    budgets: Sequence[ArmBudget]

    @property
    def level(self) -> float:
        """Level of the table's intervals."""
        return next((row["interval"]["level"] for row in self.tree.rows.values()), 0.95)


def matrix_view(tree: Tree, runs: Sequence[Run]) -> MatrixView:
    """Work out the matrix parts of a page about `runs`."""
    trained = arms_of(tree, runs)
    lines = table_lines(tree)
    inits = init_lines(tree)
    return MatrixView(
        tree=tree,
        trained=trained,
        lines=lines,
        protocols=protocols_of(lines),
        legend=_legend(tree),
        kinds=list(dict.fromkeys(test["kind"] for test in tree.tests)),
        notes=notes_once(NotedRow(line.title, line.protocol, line.own["notes"]) for line in lines),
        accuracies=accuracy_forest(tree),
        differences=difference_forests(tree),
        frontier=frontier_json(tree),
        exchanges=[line.own for line in lines if line.is_headline and line.own["conversion"] is not None],
        panel=panel_2x2(tree),
        inits=inits,
        init_scale=init_scale(inits),
        curves=bands_json(trained, tree.key_arms),
        budgets=arm_budgets(trained),
    )


def _legend(tree: Tree) -> list[str]:
    """Say in a line for each kind how the intervals were made."""
    intervals = [row["interval"] for row in tree.rows.values()]
    return list(
        dict.fromkeys(
            f"{100 * item['level']:g} % interval: {item['kind']}, resampling unit: {item['unit']}" for item in intervals
        )
    )
