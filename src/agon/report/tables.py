"""The report's tables as rows of plain values. A number that does not exist is None and shown as a dash."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agon.report.collect import Collected, Evaluation, Run
from agon.report.exchange import CellCounts
from agon.report.reader import Shelf
from agon.runs.evaluations import protocol_title

_FEW = 100
_MANY_TRUNCATED = 0.05
_MAX_NAMES = 4


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One evaluation in the result table. `owner` says whose it is; None where its label says so, or the report holds those of one alone."""

    label: str
    owner: str | None
    name: str
    protocol: str
    direction: str | None
    accuracy: float
    low: float
    high: float
    n: int
    samples: int
    tokens: Mapping[str, float]
    pass_at_k: Mapping[str, float]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """The part of 0..1 that the interval plots show."""

    low: float
    high: float

    def place(self, value: float) -> float:
        """Return where a value stands, from 0 (left end) to 100 (right end)."""
        return round(100 * (value - self.low) / (self.high - self.low), 2)


@dataclass(frozen=True, slots=True)
class Rate:
    """A share with what it was counted from, as far as it is known."""

    value: float | None
    hits: int | None = None
    of: int | None = None
    interval: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ExchangeRow:
    """What the challenge did in one evaluation. `owner` is as in the result table."""

    label: str
    owner: str | None
    conversion: Rate
    blind_second: Rate
    regression: Rate
    copy: Rate
    leak: Rate
    empty: Rate
    bonus_effective: float | None
    counts: CellCounts | None


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """What a run was given and what it used. A method that draws further problems is finished after fewer steps than planned."""

    name: str
    method: str
    seed: int | None
    steps: int
    planned_steps: int | None
    is_finished: bool
    rollouts_per_problem: float | None
    rollouts: int | None
    generated: int | None
    learned: int | None
    wall_s: float | None


def result_rows(evaluations: Sequence[Evaluation]) -> list[ResultRow]:
    """Return the result table."""
    return [
        ResultRow(
            label=evaluation.label,
            owner=_owner(evaluation),
            name=evaluation.name,
            protocol=protocol_title(evaluation.result),
            direction=evaluation.result.get("direction"),
            accuracy=evaluation.result["accuracy"],
            low=evaluation.result["interval"]["low"],
            high=evaluation.result["interval"]["high"],
            n=evaluation.result["n"],
            samples=evaluation.result.get("samples") or 1,
            tokens=evaluation.result.get("tokens") or {},
            pass_at_k=evaluation.result.get("pass_at_k") or {},
            notes=(*map(str, evaluation.result.get("notes") or ()), *_warnings(evaluation.result)),
        )
        for evaluation in evaluations
    ]


def axis_of(rows: Sequence[ResultRow]) -> Axis:
    """Return the tenths that hold every interval."""
    if not rows:
        return Axis(0.0, 1.0)
    return Axis(math.floor(10 * min(row.low for row in rows)) / 10, math.ceil(10 * max(row.high for row in rows)) / 10)


def interval_legend(evaluations: Sequence[Evaluation]) -> list[str]:
    """Say in a line for each kind how the intervals were made."""
    intervals = [evaluation.result["interval"] for evaluation in evaluations]
    return list(
        dict.fromkeys(
            f"{100 * item.get('level', 0.95):g} % interval: {item.get('kind', 'kind unknown')}, "
            f"resampling unit: {item.get('unit', 'unknown')}"
            for item in intervals
        )
    )


def exchange_rows(evaluations: Sequence[Evaluation], shelves: Sequence[Shelf | None]) -> list[ExchangeRow]:
    """Return the table of what challenges did, for the evaluations that had one."""
    rows: list[ExchangeRow] = []
    for evaluation, shelf in zip(evaluations, shelves, strict=True):
        result = evaluation.result
        if result.get("conversion") is None and result.get("regression") is None:
            continue
        counts = shelf.counts if shelf is not None else None
        rows.append(
            ExchangeRow(
                label=evaluation.label,
                owner=_owner(evaluation),
                conversion=_rate(result, "conversion", counts.converted if counts is not None else None),
                blind_second=_rate(result, "blind_second"),
                regression=_rate(result, "regression", counts.regressed if counts is not None else None),
                copy=_rate(result, "copy_rate"),
                leak=_rate(result, "leak_rate"),
                empty=_rate(result, "empty_summary_share"),
                bonus_effective=None
                if evaluation.run is None
                else mean_of(evaluation.run, "match/bonus_effective_fraction"),
                counts=counts,
            )
        )
    return rows


def budget_rows(runs: Sequence[Run]) -> list[BudgetRow]:
    """Return what every run was given and what it used."""
    return [_budget_row(run) for run in runs]


def general_warnings(collected: Collected) -> list[str]:
    """Say what forbids comparing rows of this report with each other."""
    warnings = [f"{_listed(collected.missing)} not begun: missing here"] if collected.missing else []
    by_split: dict[tuple[Any, Any], set[frozenset[str]]] = {}
    for evaluation in collected.evaluations:
        result = evaluation.result
        ids = frozenset(str(row["id"]) for row in result.get("per_problem") or ())
        by_split.setdefault((result.get("task"), result.get("split")), set()).add(ids)
    for (task, split), sets in by_split.items():
        if len(sets) > 1:
            warnings.append(f"rows on {task}, {split} were measured on different problems: they are not comparable")
    if len(by_split) > 1:
        names = ", ".join(f"{task} ({split})" for task, split in by_split)
        warnings.append(f"rows come from different problem sets ({names}): compare only rows of one set")
    budgets = {row.rollouts_per_problem for row in budget_rows(collected.runs)} - {None}
    if len(budgets) > 1:
        shown = ", ".join(f"{budget:g}" for budget in sorted(budget for budget in budgets if budget is not None))
        warnings.append(
            f"runs sampled different numbers of rollouts per problem and step ({shown}): budgets are not equal"
        )
    unfinished = [row for row in budget_rows(collected.runs) if not row.is_finished]
    warnings += [f"{row.name} has done {row.steps} of {row.planned_steps} steps" for row in unfinished]
    return warnings


def mean_of(run: Run, name: str) -> float | None:
    """Return the mean of a metric over the steps that have it."""
    values = _values(run, name)
    return sum(values) / len(values) if values else None


def _listed(names: Sequence[str]) -> str:
    """Name the first few of many runs, with the verb."""
    if len(names) == 1:
        return f"{names[0]} has"
    shown = ", ".join(names[:_MAX_NAMES]) + (", …" if len(names) > _MAX_NAMES else "")
    return f"{len(names)} runs ({shown}) have"


def _budget_row(run: Run) -> BudgetRow:
    train: Mapping[str, Any] = run.config.get("train", {})
    planned = _count(train, "steps")
    per_problem = mean_of(run, "rollouts_per_problem")
    problems = _count(train, "problems_per_step")
    steps = len(run.metrics)
    counted = _values(run, "rollouts_generated")
    rollouts = None if per_problem is None or problems is None else round(per_problem * problems * steps)
    tokens = [mean for role in ("draft", "challenge") if (mean := mean_of(run, f"{role}/tokens_mean")) is not None]
    sampled = [value for role in ("draft", "challenge") for value in _values(run, f"{role}/tokens_generated")]
    learned = [value for role in ("draft", "challenge") for value in _values(run, f"{role}/tokens_learned")]
    wall = [row["total_s"] for row in run.timings if isinstance(row.get("total_s"), int | float)]
    # Older runs did not count what they sampled. Both streams hold as many rollouts, so the mean over rollouts is the mean of theirs.
    estimate = round(rollouts * sum(tokens) / len(tokens)) if rollouts is not None and tokens else None
    return BudgetRow(
        name=run.name,
        method=str(train.get("method", "")),
        seed=_count(train, "seed"),
        steps=steps,
        planned_steps=planned,
        is_finished=_is_finished(run, planned, problems),
        rollouts_per_problem=per_problem,
        rollouts=round(counted[-1]) if counted else rollouts,
        generated=round(sum(sampled)) if sampled else estimate,
        learned=round(sum(learned)) if learned else None,
        wall_s=sum(wall) if wall else None,
    )


def _owner(evaluation: Evaluation) -> str | None:
    return None if evaluation.owner == evaluation.label else evaluation.owner


def _count(settings: Mapping[str, Any], name: str) -> int | None:
    """Return a setting that counts something, None where it is not there or no count."""
    value = settings.get(name)
    return value if type(value) is int else None


def _is_finished(run: Run, planned: int | None, problems: int | None) -> bool:
    consumed = _values(run, "problems_consumed")
    if planned is None or len(run.metrics) >= planned:
        return True
    return problems is not None and bool(consumed) and consumed[-1] >= planned * problems


def _values(run: Run, name: str) -> list[float]:
    return [row[name] for row in run.metrics if isinstance(row.get(name), int | float)]


def _rate(result: Mapping[str, Any], name: str, counted: tuple[int, int] | None = None) -> Rate:
    interval = (result.get("intervals") or {}).get(name)
    hits, of = counted if counted is not None else (None, None)
    return Rate(result.get(name), hits, of, interval if isinstance(interval, Mapping) else None)


def _warnings(result: Mapping[str, Any]) -> list[str]:
    warnings: list[str] = []
    errors = (result.get("outcomes") or {}).get("error", 0)
    if errors:
        warnings.append(f"warning: the checker failed on {errors} answers, which count as wrong")
    truncated = result.get("truncated_share")
    if isinstance(truncated, int | float) and truncated > _MANY_TRUNCATED:
        warnings.append(
            f"warning: {100 * truncated:.0f} % of the stages were cut off at the token cap; they count as wrong"
        )
    if result["n"] < _FEW:
        warnings.append(f"warning: only {result['n']} problems: the interval is wide, small differences are chance")
    return warnings
