"""Ends from outside: SIGTERM as an interrupt, and the loss of the process that started this one."""

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


@contextmanager
def termination_as_interrupt() -> Generator[None]:
    """Let SIGTERM raise KeyboardInterrupt in the block, so that what cleans up after Ctrl-C does so then as well.

    Off the main thread, where Python allows no signal handlers, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def is_orphan(environment: Mapping[str, str] = os.environ) -> bool:
    """Tell whether the process that this one was started to work for is gone: the one named to it, or the one that had it forked."""
    forked_for = multiprocessing.parent_process()
    if forked_for is not None and not forked_for.is_alive():
        return True
    parent = environment.get(PARENT_VARIABLE)
    return parent is not None and parent != str(os.getppid())
