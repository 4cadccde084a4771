"""Ends from outside: SIGTERM and SIGHUP as an interrupt, and the loss of the process that started this one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from types import FrameType

PARENT_VARIABLE = "AGON_PARENT_PID"
"""Environment variable by which a process tells those it starts whom they work for."""


def ending_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that ask this process to end: SIGTERM, and SIGHUP of a terminal that is gone unless it was started to ignore that.

    `nohup` and the like do so: what they start is to outlive its terminal.
    """
    hangup: signal.Signals | None = getattr(signal, "SIGHUP", None)
    if hangup is None or signal.getsignal(hangup) == signal.SIG_IGN:
        return (signal.SIGTERM,)
    return (signal.SIGTERM, hangup)


@contextmanager
def termination_as_interrupt() -> Generator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt in the block, so that what cleans up after Ctrl-C does so then as well.

    Off the main thread, where Python allows no signal handlers, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = {number: signal.signal(number, interrupt) for number in ending_signals()}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def is_orphan(environment: Mapping[str, str] = os.environ) -> bool:
    """Tell whether the process that this one was started to work for is gone: the one named to it, or the one that had it forked."""
    forked_for = multiprocessing.parent_process()
    if forked_for is not None and not forked_for.is_alive():
        return True
    parent = environment.get(PARENT_VARIABLE)
    return parent is not None and parent != str(os.getppid())
