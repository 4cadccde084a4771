from dataclasses import replace

import pytest

from agon.metrics import METRICS, PACE
from agon.report.collect import collect
from agon.report.curves import CHARTS, MAX_POINTS, curves_json


@pytest.fixture
def run(tmp_path, fake):
    return collect([fake.run(tmp_path / "agon", "agon", steps=6)]).runs[0]


def test_every_chart_draws_registered_metrics():
    assert {name for chart in CHARTS for name in chart.metrics} <= METRICS.keys() | PACE.keys()


def test_points_are_the_metrics_of_the_steps_with_gaps_where_there_is_no_value(run):
    (only,) = curves_json([run])["runs"]
    assert only["steps"] == [0, 1, 2, 3, 4, 5]
    assert only["series"]["match/conversion"][3] is None
    assert only["series"]["draft/accuracy"] == pytest.approx([row["draft/accuracy"] for row in run.metrics], rel=1e-4)


def test_charts_without_a_number_are_left_out(run):
    titles = [chart["title"] for chart in curves_json([run])["charts"]]
    assert "Conversion and regression" in titles
    single = replace(run, metrics=[{name: row[name] for name in ("step", "draft/accuracy")} for row in run.metrics])
    single = replace(single, timings=[])
    assert [chart["title"] for chart in curves_json([single])["charts"]] == ["Accuracy by role"]


def test_long_runs_are_averaged_over_equal_stretches(run):
    rows = [{"step": step, "draft/accuracy": float(step % 2)} for step in range(3 * MAX_POINTS)]
    (only,) = curves_json([replace(run, metrics=rows)])["runs"]
    assert (only["stride"], len(only["steps"]), only["steps"][1]) == (3, MAX_POINTS, 3)
    # Stretches 0,1,0 and 1,0,1 take turns.
    assert only["series"]["draft/accuracy"][:2] == pytest.approx([1 / 3, 2 / 3], abs=1e-4)


def test_a_chart_tells_formula_and_bad_value_once_for_both_streams():
    about = next(chart for chart in CHARTS if chart.title == "Entropy").to_json()["about"]
    assert about.count(METRICS["draft/entropy"].formula) == 1
    assert METRICS["draft/entropy"].bad in about
