from pathlib import Path

from agon.report.collect import Run
from agon.report.matrix.arms import ArmRuns
from agon.report.matrix.bands import MAX_POINTS, bands_json


def run_of(*accuracies, name="draft/accuracy"):
    metrics = [{"step": step, name: value} for step, value in enumerate(accuracies)]
    return Run("r", Path("r"), {}, {}, metrics, [])


def arm_of(*runs, name="agon"):
    return ArmRuns(name, name.title(), "exchange", name, {}, tuple(range(len(runs))), runs, 16.0)


def curve_of(*runs):
    (curve,) = bands_json([arm_of(*runs)], ["agon"])["runs"]
    return curve


def test_a_line_is_the_mean_over_trainings_and_the_band_their_smallest_and_largest():
    # Step 0: mean of .2, .4 and .9 is .5, between .2 and .9. Step 1: all .6.
    curve = curve_of(run_of(0.2, 0.6), run_of(0.4, 0.6), run_of(0.9, 0.6))
    assert curve["series"]["draft/accuracy"] == [0.5, 0.6]
    assert curve["bands"]["draft/accuracy"] == {"low": [0.2, 0.6], "high": [0.9, 0.6]}
    assert (curve["steps"], curve["num_runs"], curve["shown"], curve["group"]) == ([0, 1], 3, True, "exchange")


def test_one_training_has_a_line_and_no_band():
    curve = curve_of(run_of(0.2, 0.6))
    assert curve["series"]["draft/accuracy"] == [0.2, 0.6]
    assert "bands" not in curve


def test_a_band_needs_two_numbers_at_its_step():
    curve = curve_of(run_of(0.2, None, None), run_of(0.4, 0.6, None))
    assert curve["series"]["draft/accuracy"] == [0.3, 0.6, None]
    assert curve["bands"]["draft/accuracy"] == {"low": [0.2, None, None], "high": [0.4, None, None]}


def test_a_curve_ends_with_its_shortest_training_and_unbegun_ones_do_not_count():
    curve = curve_of(run_of(0.2, 0.4, 0.6), run_of(0.4, 0.6), run_of())
    assert curve["series"]["draft/accuracy"] == [0.3, 0.5]
    assert curve["num_runs"] == 2


def test_long_trainings_are_averaged_over_stretches_of_each_training_before_the_band_is_taken():
    # 120 steps make 60 points of two; trainings alternate between 0 and 1, so every stretch has mean .5 and the band no height.
    curve = curve_of(run_of(*[0.0, 1.0] * 60), run_of(*[1.0, 0.0] * 60))
    assert (curve["stride"], len(curve["steps"]), MAX_POINTS) == (2, 60, 60)
    assert set(curve["series"]["draft/accuracy"]) == {0.5}
    assert set(curve["bands"]["draft/accuracy"]["low"]) == {0.5}


def test_charts_without_a_number_and_arms_without_a_step_are_left_out():
    data = bands_json([arm_of(run_of(0.2)), arm_of(run_of(), name="late")], [])
    assert [chart["title"] for chart in data["charts"]] == ["Accuracy by role"]
    assert [(curve["name"], curve["shown"]) for curve in data["runs"]] == [("Agon", False)]
