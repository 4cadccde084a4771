from __future__ import annotations

import os
import signal
import time

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
