from __future__ import annotations

import threading

import pytest

from agon.train.tracking import Detached


class Service:
    """A tracker that fails where it is told to."""

    def __init__(self, *, fails_at=(), fails_to_close=False, gate=None):
        self.rows = []
        self.is_closed = False
        self._fails_at, self._fails_to_close, self._gate = fails_at, fails_to_close, gate

    def log(self, row):
        if self._gate is not None:
            self._gate.wait()
        if row["step"] in self._fails_at:
            raise ConnectionError("no route to host")
        self.rows.append(row)

    def close(self):
        if self._fails_to_close:
            raise SystemExit(1)
        self.is_closed = True


def _logged(open_one, steps=3, **options):
    told = []
    tracker = Detached(open_one, "wandb", say=told.append, **options)
    for step in range(steps):
        tracker.log({"step": step})
    tracker.close()
    return told


def test_every_line_arrives_in_order_and_nothing_is_said():
    service = Service()
    assert _logged(lambda: service) == []
    assert [row["step"] for row in service.rows] == [0, 1, 2]
    assert service.is_closed


def test_lines_that_fail_are_told_once_and_counted():
    service = Service(fails_at=(0, 2))
    first, last = _logged(lambda: service)
    assert first == (
        "warning: wandb did not take step 0 (ConnectionError: no route to host); training goes on without it"
    )
    assert last == "warning: 2 of 3 steps did not reach wandb; metrics.jsonl has them all"
    assert [row["step"] for row in service.rows] == [1]


@pytest.mark.parametrize("error", [RuntimeError("not\nlogged in"), SystemExit(2), KeyboardInterrupt()])
def test_a_service_that_does_not_start_is_told_and_costs_nothing_else(error):
    def refuse():
        raise error

    first, last = _logged(refuse)
    assert first.startswith(f"warning: wandb did not start ({type(error).__name__}: ")
    assert "\n" not in first
    assert last.startswith("warning: 3 of 3 steps did not reach wandb")


def test_a_service_that_ends_badly_is_told():
    (told,) = _logged(lambda: Service(fails_to_close=True))
    assert told.startswith("warning: wandb did not end well (SystemExit: 1)")


def test_a_service_that_hangs_is_not_waited_for_for_ever():
    gate = threading.Event()
    try:
        told = _logged(lambda: Service(gate=gate), patience_s=0.05)
    finally:
        gate.set()
    assert told == ["warning: wandb has not taken 3 of 3 steps within 0.05 s; metrics.jsonl has them all"]


def test_logging_does_not_wait_for_a_slow_service():
    gate = threading.Event()
    service = Service(gate=gate)
    told = []
    tracker = Detached(lambda: service, "trackio", say=told.append)
    for step in range(100):
        tracker.log({"step": step})  # would never return if it waited
    assert service.rows == []
    gate.set()
    tracker.close()
    assert len(service.rows) == 100
    assert told == []
