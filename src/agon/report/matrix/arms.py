"""Arms with the runs that trained them: what they are, what they were given, what they used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agon.report.collect import Run
from agon.report.matrix.tree import Node, Tree, group_of_arm, in_group_order
from agon.report.tables import BudgetRow, budget_rows


@dataclass(frozen=True, slots=True)
class ArmRuns:
    """An arm and its trainings, in the order of their seeds. Arms of equal settings may share a run."""

    name: str
    title: str
    group: str
    method: str | None
    settings: Mapping[str, Any]
    seeds: tuple[int | None, ...]
    runs: tuple[Run, ...]
    rollouts_per_problem: float | None


@dataclass(frozen=True, slots=True)
class ArmBudget:
    """What an arm's trainings were given and what they used. Tokens and times are means of a training."""

    title: str
    num_runs: int
    steps: str
    rollouts_per_problem: float | None
    rollouts: float | None
    generated: float | None
    learned: float | None
    wall_s: float | None


def arms_of(tree: Tree, runs: Sequence[Run]) -> list[ArmRuns]:
    """Return the trained arms in the order of the page; runs that the report does not have are left out."""
    by_path = {run.path.resolve(): run for run in runs}
    found = [_arm(node, by_path) for node in tree.arms.values() if node["runs"]]
    order = in_group_order([arm.group for arm in found])
    return sorted(found, key=lambda arm: order.index(arm.group))


def owners_of(arms: Sequence[ArmRuns]) -> dict[str, str]:
    """Say for every run, by its name, whose it is: its arm's title, with the seed where the arm was trained more than once."""
    owners: dict[str, list[str]] = {}
    for arm in arms:
        for seed, run in zip(arm.seeds, arm.runs, strict=True):
            title = arm.title if len(arm.runs) == 1 or seed is None else f"{arm.title}, seed {seed}"
            owners.setdefault(run.name, []).append(title)
    return {name: " / ".join(titles) for name, titles in owners.items()}


def arm_budgets(arms: Sequence[ArmRuns]) -> list[ArmBudget]:
    """Return what every arm was given and used."""
    return [_budget(arm, budget_rows(arm.runs)) for arm in arms if arm.runs]


def _arm(node: Node, by_path: Mapping[Path, Run]) -> ArmRuns:
    pairs = [(run["seed"], by_path.get(Path(run["run"]).resolve())) for run in node["runs"]]
    return ArmRuns(
        name=node["name"],
        title=node["title"],
        group=group_of_arm(node),
        method=node["method"],
        settings=node["settings"],
        seeds=tuple(seed for seed, run in pairs if run is not None),
        runs=tuple(run for _, run in pairs if run is not None),
        rollouts_per_problem=node["rollouts_per_problem"],
    )


def _budget(arm: ArmRuns, rows: Sequence[BudgetRow]) -> ArmBudget:
    steps = dict.fromkeys(
        str(row.steps) if row.steps == row.planned_steps else f"{row.steps} of {row.planned_steps}" for row in rows
    )
    return ArmBudget(
        title=arm.title,
        num_runs=len(rows),
        steps=", ".join(steps),
        rollouts_per_problem=arm.rollouts_per_problem,
        rollouts=_mean([row.rollouts for row in rows]),
        generated=_mean([row.generated for row in rows]),
        learned=_mean([row.learned for row in rows]),
        wall_s=_mean([row.wall_s for row in rows]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
