from __future__ import annotations

from dataclasses import asdict

from agon.config import TrainSettings
from agon.train.state import Progress

OWN = TrainSettings(steps=5, problems_per_step=4, group_size=2)


def test_progress_comes_back_as_it_was_stored():
    progress = Progress(3, 17, 68, 20)
    assert Progress.from_json(asdict(progress), OWN) == progress


def test_a_checkpoint_that_stored_its_steps_alone_had_used_up_that_many_times_a_step():
    # 3 steps of 4 problems of 2N = 4 rollouts
    assert Progress.from_json({"completed_steps": 3}, OWN) == Progress(3, 12, 48, 0)


def test_a_run_is_over_when_its_problems_are_used_up_whatever_its_steps():
    assert [Progress(2, consumed).left(OWN) for consumed in (0, 17, 20, 23)] == [20, 3, 0, 0]


def test_the_place_in_the_schedule_is_the_share_of_problems_used_up():
    assert Progress(3, 12).position(OWN) == 3.0
    assert Progress(2, 14).position(OWN) == 3.5
