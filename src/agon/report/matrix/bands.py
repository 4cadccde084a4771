"""Training curves of arms: the mean over an arm's trainings, and between which values they lie."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agon.report.collect import Run
from agon.report.curves import CHARTS, mean_of_rows
from agon.report.matrix.arms import ArmRuns
from agon.report.matrix.tree import group_title

MAX_POINTS = 60
"""Most points of an arm's curve; longer trainings are averaged over equal stretches of steps."""
METRICS = frozenset(
    {
        "draft/accuracy",
        "draft/reward_mean",
        "draft/tokens_mean",
        "draft/truncated_share",
        "draft/dead_group_share",
        "draft/revived_group_share",
        "draft/entropy",
        "draft/grad_norm",
        "draft/unparsed_share",
        "match/conversion",
        "match/bonus_effective_fraction",
        "match/advantage_draft_wrong",
        "match/copy_rate",
        "pair/distance",
    }
)
"""First metrics of the charts that are drawn for arms. The others are in the report of a single run."""

Series = list[float | None]


def bands_json(arms: Sequence[ArmRuns], shown: Collection[str]) -> dict[str, Any]:
    """Return charts and the curves of every arm that has begun, as `curves_json` does for runs.

    Each point is a mean over `stride` steps. `series` holds the mean of the trainings, `bands` the smallest and largest of them, in
    charts of one training no band. A curve ends where the first of its trainings ends. Arms named in `shown` are drawn at first.
    """
    begun = [(arm, [run for run in arm.runs if run.metrics]) for arm in arms]
    begun = [(arm, runs) for arm, runs in begun if runs]
    charts = [
        chart for chart in CHARTS if chart.metrics[0] in METRICS and any(_has(runs, chart.metrics) for _, runs in begun)
    ]
    names = [name for chart in charts for name in chart.metrics]
    return {
        "charts": [chart.to_json() for chart in charts],
        "runs": [
            {
                "name": arm.title,
                "group": group_title(arm.group),
                "shown": arm.name in shown,
                "num_runs": len(runs),
                **_curves([run.metrics for run in runs], [name for name in names if _has(runs, (name,))]),
            }
            for arm, runs in begun
        ],
    }


def _curves(trainings: Sequence[Sequence[Mapping[str, Any]]], names: Sequence[str]) -> dict[str, Any]:
    num_steps = min(len(rows) for rows in trainings)
    stride = math.ceil(num_steps / MAX_POINTS)
    starts = range(0, num_steps, stride)
    curves: dict[str, Any] = {
        "stride": stride,
        "steps": [trainings[0][start]["step"] for start in starts],
        "series": {},
    }
    if len(trainings) > 1:
        curves["bands"] = {}
    for name in names:
        each = [
            [mean_of_rows(rows[start : min(start + stride, num_steps)], name) for start in starts] for rows in trainings
        ]
        mean, low, high = _over_trainings(each)
        curves["series"][name] = mean
        if "bands" in curves:
            curves["bands"][name] = {"low": low, "high": high}
    return curves


def _over_trainings(each: Sequence[Series]) -> tuple[Series, Series, Series]:
    """Return mean, smallest and largest at every point; a band exists where two trainings or more have a number."""
    mean: Series = []
    low: Series = []
    high: Series = []
    for values in zip(*each, strict=True):
        known = [value for value in values if value is not None]
        mean.append(float(f"{sum(known) / len(known):.4g}") if known else None)
        low.append(float(f"{min(known):.4g}") if len(known) > 1 else None)
        high.append(float(f"{max(known):.4g}") if len(known) > 1 else None)
    return mean, low, high


def _has(runs: Sequence[Run], names: Sequence[str]) -> bool:
    return any(isinstance(row.get(name), int | float) for run in runs for row in run.metrics for name in names)
