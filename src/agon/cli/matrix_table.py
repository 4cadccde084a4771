"""A matrix before it starts, for people and as JSON: what every cell costs, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from agon.ablation.plan import Plan
from agon.ablation.run import CellState, describe_states
from agon.runs.matrix import BASE

_WIDE = 170


def cells_json(plan: Plan, states: Mapping[str, CellState]) -> list[dict[str, Any]]:
    """Return every arm and seed with its budget and state. Cells of arms with equal settings name the same run."""
    by_run = {cell.run: cell for cell in plan.cells}
    rows: list[dict[str, Any]] = []
    for cell in plan.matrix.cells:
        planned, budget = by_run[cell.run], plan.budgets[cell.arm]
        own = planned.settings.train
        rows.append(
            {
                "arm": cell.arm,
                "method": own.method,
                "seed": cell.seed,
                "rollouts_per_problem": budget.rollouts_per_problem,
                "problems": own.problems_per_step * own.steps,
                "steps": own.steps,
                "rollouts": budget.rollouts,
                "tokens_at_most": budget.tokens_at_most,
                "evaluations": list(planned.evaluations),
                "run": cell.run,
                "state": states[planned.name],
            }
        )
    return rows


def print_plan(plan: Plan, states: Mapping[str, CellState] | None) -> None:
    """Print the budget of every arm's cells, and how far they are."""
    table = Table(box=box.SIMPLE_HEAD, title="budget of each cell", title_justify="left")
    for name in ("arm", "method"):
        table.add_column(name, no_wrap=True)
    for name in ("rollouts a problem", "problems", "steps", "rollouts", "tokens at most", "seeds", "evaluations"):
        table.add_column(name, justify="right")
    by_run = {cell.run: cell for cell in plan.cells}
    for arm in plan.matrix.arms:
        own = [cell for cell in plan.matrix.cells if cell.arm == arm.name]
        budget, planned = plan.budgets[arm.name], by_run[own[0].run]
        train = planned.settings.train
        table.add_row(
            arm.name,
            arm.method,
            str(budget.rollouts_per_problem),
            f"{train.problems_per_step * train.steps:,}",
            str(train.steps),
            f"{budget.rollouts:,}",
            f"{budget.tokens_at_most:,}",
            ", ".join(str(cell.seed) for cell in own),
            str(len(planned.evaluations)),
        )
    console = Console()
    console = console if console.is_terminal else Console(width=_WIDE)
    console.print(table)
    shared = len(plan.matrix.cells) - len(plan.cells)
    trained = f"{len(plan.cells)} trainings" + (f" ({shared} cells share the run of an equal arm)" if shared else "")
    total = sum(plan.budgets[cell.arms[0]].rollouts for cell in plan.cells)
    console.print(
        f"  {len(plan.matrix.arms)} arms, {len(plan.matrix.seeds)} seeds: {trained}, {total:,} rollouts; "
        f"{len(plan.base_evaluations)} evaluations of the untrained base",
        highlight=False,
    )
    if states is not None:
        console.print(f"  {describe_states({name: states[name] for name in states if name != BASE})}", highlight=False)
