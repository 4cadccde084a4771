"""Training curves as numbers for the page to draw."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agon.metrics import METRICS, PACE
from agon.report.collect import Run
from agon.report.pace import pace_of_steps

MAX_POINTS = 600
"""Most points of a curve in the page; longer ones are averaged over equal stretches of steps."""

_KNOWN = {**METRICS, **PACE}


@dataclass(frozen=True, slots=True)
class Chart:
    """One picture: a title and the metrics drawn in it, solid first, then dashed."""

    title: str
    metrics: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Turn the chart into plain JSON types, with unit, formula and bad value from the registry."""
        first = _KNOWN[self.metrics[0]]
        return {
            "title": self.title,
            "unit": first.unit,
            "lines": [{"metric": name, "name": _short(name)} for name in self.metrics],
            "about": " · ".join(
                _about(name, len(self.metrics) > 1) for name in self.metrics if _is_told(name, self.metrics)
            ),
        }


def _of_streams(title: str, name: str) -> Chart:
    return Chart(title, (f"draft/{name}", f"challenge/{name}"))


CHARTS: tuple[Chart, ...] = (
    _of_streams("Reward", "reward_mean"),
    _of_streams("Accuracy by role", "accuracy"),
    Chart("Conversion and regression", ("match/conversion", "match/regression")),
    _of_streams("Tokens by stage", "tokens_mean"),
    _of_streams("Truncated", "truncated_share"),
    _of_streams("Entropy", "entropy"),
    _of_streams("Gradient norm", "grad_norm"),
    _of_streams("Groups without signal", "dead_group_share"),
    _of_streams("Groups revived by the reward", "revived_group_share"),
    Chart("Groups the bonus changes", ("match/bonus_effective_fraction",)),
    Chart("Size of advantages by draft", ("match/advantage_draft_wrong", "match/advantage_draft_right")),
    Chart("Copies and leaks", ("match/copy_rate", "match/leak_rate")),
    _of_streams("Format", "format_mean"),
    _of_streams("Unreadable answers", "unparsed_share"),
    _of_streams("Engine/learner gap", "logprob_gap_mean"),
    _of_streams("Importance weight", "importance_mean"),
    _of_streams("Tokens learned from", "tokens_learned"),
    Chart("Distance of the adapters", ("pair/distance",)),
    Chart("Learning rate", ("learning_rate",)),
    Chart("Tokens a second", ("pace/sampling_speed", "pace/step_speed", "pace/learning_speed")),
    Chart("Where a step's time goes", ("pace/generate_share", "pace/learn_share", "pace/idle_share")),
    Chart("Of what is left of a step", ("pace/sync_share", "pace/verify_wait_share", "pace/save_share")),
)


def curves_json(runs: Sequence[Run]) -> dict[str, Any]:
    """Return charts and the points of every run's curves; charts that no run has a number for are left out."""
    rows = [(run.name, _steps(run)) for run in runs if run.metrics]
    charts = [chart for chart in CHARTS if any(_has_number(steps, chart.metrics) for _, steps in rows)]
    names = [name for chart in charts for name in chart.metrics]
    return {
        "charts": [chart.to_json() for chart in charts],
        "runs": [{"name": name, **_points(steps, names)} for name, steps in rows],
    }


def _steps(run: Run) -> list[Mapping[str, Any]]:
    """Return the lines of metrics.jsonl with what timings.jsonl says of the same steps."""
    pace = {row["step"]: row for row in pace_of_steps(run)}
    return [{**row, **pace.get(row["step"], {})} for row in run.metrics]


def _points(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    stride = math.ceil(len(rows) / MAX_POINTS)
    stretches = [rows[start : start + stride] for start in range(0, len(rows), stride)]
    return {
        "stride": stride,
        "steps": [stretch[0]["step"] for stretch in stretches],
        "series": {
            name: [mean_of_rows(stretch, name) for stretch in stretches] for name in names if _has_number(rows, (name,))
        },
    }


def mean_of_rows(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """Return the mean of a number over the lines that have it, with five figures."""
    values = [row[name] for row in rows if isinstance(row.get(name), int | float)]
    return float(f"{sum(values) / len(values):.5g}") if values else None


def _has_number(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> bool:
    return any(isinstance(row.get(name), int | float) for row in rows for name in names)


def _short(name: str) -> str:
    family, _, own = name.rpartition("/")
    return family if family in ("draft", "challenge") else own.replace("_", " ")


def _is_told(name: str, names: Sequence[str]) -> bool:
    """The two streams share one formula: it is told once."""
    return not (name.startswith("challenge/") and f"draft/{name.partition('/')[2]}" in names)


def _about(name: str, is_named: bool) -> str:
    metric = _KNOWN[name]
    is_named = is_named and metric.family not in ("draft", "challenge")
    return f"{_short(name) + ': ' if is_named else ''}{metric.formula}. Bad: {metric.bad}"
