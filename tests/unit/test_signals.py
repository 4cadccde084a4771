from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
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


def _ended(code, *, name, then="while True: time.sleep(1)"):
    """How a process ends that leaves a thread behind."""
    program = f"""
import atexit, sys, threading, time
from agon import signals
signals._PATIENCE_S = 0.05
atexit.register(print, "cleaned up")
def last():
    {then}
threading.Thread(target=last, name={name!r}).start()
sys.stdout.write("told ")
sys.exit(signals.without_hung_threads({code}))
"""
    ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    return ended.returncode, ended.stdout


@pytest.mark.parametrize(("code", "name"), [(0, "agon-check_0"), (1, "agon-check_0"), (130, "other")])
def test_a_process_ends_without_a_thread_that_hangs_and_with_its_code_and_all_that_it_said(code, name):
    assert _ended(code, name=name) == (code, "told ")


@pytest.mark.parametrize("code", [0, 1])
def test_a_command_that_was_not_interrupted_waits_for_threads_that_are_not_ours(code):
    assert _ended(code, name="upload", then="time.sleep(0.5); print('sent')") == (code, "told sent\ncleaned up\n")


def test_after_an_interrupt_idle_threads_are_ended_as_python_does():
    program = """
import atexit, sys
from concurrent.futures import ThreadPoolExecutor
from agon import signals
signals._PATIENCE_S = 60.0
atexit.register(print, "cleaned up")
threads = ThreadPoolExecutor(1, thread_name_prefix="agon-check")
threads.submit(int).result()
sys.exit(signals.without_hung_threads(130))
"""
    ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, timeout=50, check=False)
    assert (ended.returncode, ended.stdout) == (130, "cleaned up\n")
