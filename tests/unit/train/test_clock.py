from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from agon.metrics import TIMINGS
from agon.model.memory import Peak
from agon.train.clock import StepClock


@pytest.fixture
def now(monkeypatch):
    """The time, which the test sets."""
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


def test_a_step_is_split_into_parts_that_add_up(now, make_match, monkeypatch):
    session: Any = SimpleNamespace(engine=object(), engine_seconds=7.0, verify_wait_seconds=1.0)
    clock = StepClock(session)  # what was spent before the step does not count
    session.engine_seconds += 6.0
    session.verify_wait_seconds += 0.5
    now[0] = 107.0
    clock.count([[make_match("wrong", "correct")] * 2])
    for until in (109.0, 109.5):  # two streams; between them nothing
        with clock.learning():
            now[0] = until
    with clock.saving():
        now[0] = 109.75
    now[0] = 110.0
    monkeypatch.setattr("agon.train.clock.peak_bytes", lambda: Peak(3 << 30, 0))
    line = clock.line(3)
    # 10 - (6 + 0 + 0.5 + 2.5 + 0.25) is left.
    assert line == {
        "step": 3,
        "generate_s": 6.0,
        "sync_s": 0.0,
        "verify_wait_s": 0.5,
        "learn_s": 2.5,
        "save_s": 0.25,
        "other_s": 0.75,
        "total_s": 10.0,
        "sampled_tokens": 14,  # 2 x (3 + 4)
        "memory_peak_bytes": 3 << 30,
        "gpu_peak_bytes": 0,
    }


def test_every_part_of_a_line_is_explained(now):
    session: Any = SimpleNamespace(engine=object(), engine_seconds=0.0, verify_wait_seconds=0.0)
    assert StepClock(session).line(0).keys() == {"step", *TIMINGS}
