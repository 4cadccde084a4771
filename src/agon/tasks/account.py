"""A task's problems accounted for: a hash that names them, counts, and every row that was dropped."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from agon.errors import DataError
from agon.tasks.data import TaskData

_SHOWN = 5


def data_hash(task: TaskData) -> str:
    """Hash which problems stand in which split, with what their answers are checked against: golds, numbers, tests."""
    digest = hashlib.sha256()
    for name, problems in task.splits.items():
        for problem in problems:
            details = json.dumps(problem.details, sort_keys=True, default=str)
            digest.update(f"{name}\x1f{problem.id}\x1f{problem.gold}\x1f{details}\n".encode(errors="surrogatepass"))
    return digest.hexdigest()


def describe_task(task: TaskData) -> dict[str, Any]:
    """Return the account as plain JSON: source, counts of each split, and every dropped row by number."""
    return {
        "name": task.name,
        "source": task.source,
        "counts": {name: len(problems) for name, problems in task.splits.items()},
        "duplicates": task.num_duplicates,
        "filtered": task.num_filtered,
        "dropped_rows": [{"number": row.number, "reason": row.reason, "source": row.source} for row in task.bad_rows],
    }


def require_training_problems(task: TaskData, *, remedy: str = "give more usable rows") -> None:
    """Check that there is something to train on.

    Raises:
        DataError: there is not; says where the problems are and why they are not for training.
    """
    if task.train:
        return
    if task.is_test_alone:
        instead = "set task.path to problems to train on" if task.name == "custom" else "train on another task"
        raise DataError(f"task {task.name} has a test split alone ({task.source}), to measure with: {instead}")
    reasons = [f"{len(problems)} in the {name} split" for name, problems in task.splits.items() if problems]
    if task.bad_rows:
        *_, last = task.bad_rows
        where = "" if last.number is None else f"row {last.number} of {last.source}: "
        reasons.append(f"{len(task.bad_rows)} dropped, the last one because of {where}{last.reason}")
    if task.num_filtered:
        reasons.append(f"{task.num_filtered} filtered by level or as guessable")
    raise DataError(f"task {task.name} has no training problem left ({'; '.join(reasons)}): {remedy}")


def summary_lines(task: TaskData) -> list[str]:
    """Return the account as lines for people; of many dropped rows the first few are named."""
    counts = ", ".join(f"{len(problems)} {name}" for name, problems in task.splits.items())
    left_out = (
        f"; {task.num_duplicates} duplicates, {task.num_filtered} filtered"
        if task.num_duplicates or task.num_filtered
        else ""
    )
    lines = [f"task {task.name}: {counts} problems{left_out}"]
    for row in task.bad_rows[:_SHOWN]:
        where = "" if row.number is None else f"row {row.number} of {row.source}: "
        lines.append(f"  dropped: {where}{row.reason}")
    if len(task.bad_rows) > _SHOWN:
        lines.append(f"  dropped: {len(task.bad_rows) - _SHOWN} more (all are in data.json)")
    return lines
