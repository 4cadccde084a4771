"""Learning rates by step."""

from __future__ import annotations

import pytest

from agon.config import TrainSettings
from agon.learner.optimizer import learning_rate


def rates(total, **settings):
    own = TrainSettings(learning_rate=1.0, **settings)
    return [learning_rate(own, step=step, total_steps=total) for step in range(total)]


def test_linear_schedule_warms_up_and_falls_to_one_step_above_zero():
    # 2 of 10 steps of warm-up: 1/2, 2/2; then 8/8 down to 1/8.
    assert rates(10, warmup_share=0.2) == pytest.approx([0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125])


def test_constant_schedule_stays_at_the_peak():
    assert rates(5, warmup_share=0.4, schedule="constant") == pytest.approx([0.5, 1.0, 1.0, 1.0, 1.0])


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("total", [1, 2, 7])
def test_no_step_has_rate_zero(share, total):
    assert all(0.0 < rate <= 1.0 for rate in rates(total, warmup_share=share))


def test_a_step_between_two_has_a_rate_between_theirs_and_never_above_the_peak():
    # 4 of 10 steps of warm-up: (1.5 + 1)/4; (3.5 + 1)/4 is over the peak; then (10 - 6.5)/6.
    own = TrainSettings(learning_rate=1.0, warmup_share=0.4)
    found = [learning_rate(own, step=step, total_steps=10) for step in (1.5, 3.5, 6.5)]
    assert found == pytest.approx([0.625, 1.0, 3.5 / 6])
