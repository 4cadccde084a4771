from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from agon.train.clock import StepClock


def test_a_step_is_split_by_what_the_session_spent(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    session: Any = SimpleNamespace(engine=object(), engine_seconds=7.0, verify_wait_seconds=1.0)
    clock = StepClock(session)  # what was spent before the step does not count
    session.engine_seconds += 6.0
    session.verify_wait_seconds += 0.5
    now[0] = 107.0
    clock.end_play()
    now[0] = 110.0
    line = clock.line(3)
    assert line == {
        "step": 3,
        "play_s": 7.0,
        "generate_s": 6.0,
        "sync_s": 0.0,
        "verify_wait_s": 0.5,
        "learn_s": 3.0,
        "total_s": 10.0,
    }
    assert line["play_s"] + line["learn_s"] == pytest.approx(line["total_s"])
