from __future__ import annotations

import multiprocessing
import os
import signal
import time
from types import SimpleNamespace

import pytest

from agon.signals import PARENT_VARIABLE, ending_signals, is_orphan, termination_as_interrupt


@pytest.fixture
def hangup():
    """Return a function that sets what is done about SIGHUP, until the test is over."""
    before = signal.getsignal(signal.SIGHUP)
    yield lambda handler: signal.signal(signal.SIGHUP, handler)
    signal.signal(signal.SIGHUP, before)


def _end_myself(number):
    os.kill(os.getpid(), number)
    time.sleep(1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_termination_raises_keyboard_interrupt_inside_and_is_restored_after(hangup, number):
    hangup(signal.SIG_DFL)
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), termination_as_interrupt():
        _end_myself(number)
    assert signal.getsignal(number) == before


def test_what_was_started_to_outlive_its_terminal_does(hangup):
    hangup(signal.SIG_IGN)
    with termination_as_interrupt():
        os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    assert ending_signals() == (signal.SIGTERM,)


def test_a_process_is_an_orphan_when_its_employer_is_not_its_parent_any_more():
    assert not is_orphan({})
    assert not is_orphan({PARENT_VARIABLE: str(os.getppid())})
    assert is_orphan({PARENT_VARIABLE: "1" if os.getppid() != 1 else "2"})


@pytest.mark.parametrize("is_alive", [True, False])
def test_a_forked_process_is_an_orphan_when_the_process_that_had_it_forked_is_gone(monkeypatch, is_alive):
    parent = SimpleNamespace(is_alive=lambda: is_alive)
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: parent)
    assert is_orphan({}) == (not is_alive)
