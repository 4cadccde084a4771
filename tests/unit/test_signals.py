from __future__ import annotations

import multiprocessing
import os
import signal
import time
from types import SimpleNamespace

import pytest

from agon.signals import PARENT_VARIABLE, is_orphan, termination_as_interrupt


def _terminate_myself():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(1)


def test_termination_raises_keyboard_interrupt_inside_and_is_restored_after():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), termination_as_interrupt():
        _terminate_myself()
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_process_is_an_orphan_when_its_employer_is_not_its_parent_any_more():
    assert not is_orphan({})
    assert not is_orphan({PARENT_VARIABLE: str(os.getppid())})
    assert is_orphan({PARENT_VARIABLE: "1" if os.getppid() != 1 else "2"})


@pytest.mark.parametrize("is_alive", [True, False])
def test_a_forked_process_is_an_orphan_when_the_process_that_had_it_forked_is_gone(monkeypatch, is_alive):
    parent = SimpleNamespace(is_alive=lambda: is_alive)
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: parent)
    assert is_orphan({}) == (not is_alive)
