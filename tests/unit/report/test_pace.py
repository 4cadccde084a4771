from __future__ import annotations

from dataclasses import replace

import pytest

from agon.metrics import PACE
from agon.report.collect import Collected, collect
from agon.report.curves import curves_json
from agon.report.pace import pace_of_steps, pace_rows, untimed_steps
from agon.report.page import render

LINE = {"generate_s": 4.0, "sync_s": 0.5, "verify_wait_s": 0.0, "learn_s": 2.0, "save_s": 0.25, "other_s": 1.25}
LINE |= {"total_s": 8.0, "sampled_tokens": 1000}


@pytest.fixture
def run(tmp_path, fake):
    return collect([fake.run(tmp_path / "agon", "agon", steps=2)]).runs[0]


@pytest.fixture
def timed(run):
    """A run of two steps: one of 8 s, one of twice as long with three times the tokens."""
    metrics = [{**run.metrics[0], "step": step} for step in (0, 1)]
    for row in metrics:
        row |= {"draft/tokens_learned": 300, "challenge/tokens_learned": 100}
    second = {name: 2 * value for name, value in LINE.items()} | {"sampled_tokens": 3000}
    return replace(run, metrics=metrics, timings=[{"step": 0, **LINE}, {"step": 1, **second}])


def test_a_step_gives_shares_and_speeds(timed):
    first, second = pace_of_steps(timed)
    # 4/8 sampling and 2/8 learning leave 2/8; 1000 tokens in 4 s, or in 8; 300 + 100 learned from in 2 s.
    assert first == {
        "step": 0,
        "pace/generate_share": 0.5,
        "pace/learn_share": 0.25,
        "pace/idle_share": 0.25,
        "pace/sync_share": 0.0625,
        "pace/verify_wait_share": 0.0,
        "pace/save_share": 0.03125,
        "pace/sampling_speed": 250.0,
        "pace/step_speed": 125.0,
        "pace/learning_speed": 200.0,
    }
    assert second["pace/sampling_speed"] == 3000 / 8.0
    assert first.keys() == {"step", *PACE}


def test_a_run_is_the_sum_of_its_steps(timed):
    (row,) = pace_rows([timed])
    assert row.seconds == 12.0
    assert sum(share or 0.0 for share in row.parts.values()) == pytest.approx(1.0)
    assert row.idle == pytest.approx(0.25)
    # 4,000 tokens in 4 + 8 s of sampling and 8 + 16 s of steps; 800 in 2 + 4 s of learning.
    assert (row.sampling_speed, row.step_speed) == pytest.approx((4000 / 12, 4000 / 24))
    assert row.learning_speed == pytest.approx(800 / 6)


def test_steps_without_timings_are_counted(timed):
    assert untimed_steps([timed]) == []
    lost = replace(timed, timings=timed.timings[:1])
    assert untimed_steps([timed, lost, replace(timed, timings=[])]) == ["agon (1 of 2)", "agon (2 of 2)"]
    assert "missing in every time given here: agon (1 of 2)." in render(Collected("agon", (lost,), (), ()))
    assert "missing in every time" not in render(Collected("agon", (timed,), (), ()))


def test_what_an_older_run_did_not_note_is_left_out(timed):
    old = replace(timed, timings=[{"step": 0, "play_s": 6.0, "generate_s": 5.0, "learn_s": 2.0, "total_s": 8.0}])
    (row,) = pace_rows([old])
    assert (row.idle, row.sampling_speed, row.parts["save"]) == (None, None, None)
    assert pace_of_steps(old) == [{"step": 0, "pace/generate_share": 0.625, "pace/learn_share": 0.25}]
    assert pace_rows([replace(timed, timings=[])]) == []


def test_curves_follow_the_steps_of_the_metrics(timed):
    # The process was killed before it wrote the timings of the second step.
    lost = replace(timed, timings=timed.timings[:1])
    curves = curves_json([lost])
    assert curves["runs"][0]["series"]["pace/sampling_speed"] == [250.0, None]
    assert {"Tokens a second", "Where a step's time goes"} <= {chart["title"] for chart in curves["charts"]}
