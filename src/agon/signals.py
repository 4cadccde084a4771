"""Ends from outside: SIGTERM and SIGHUP as an interrupt, the loss of the process that started this one, and threads that do not end."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType

PARENT_VARIABLE = "AGON_PARENT_PID"
"""Environment variable by which a process tells those it starts whom they work for."""

EXIT_INTERRUPTED = 130
"""Exit code of a command that was interrupted."""

OWN_THREADS = "agon-"
"""How the names of our own threads begin."""

# What is about to end by itself gets so long for it.
_PATIENCE_S = 1.0


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


def without_hung_threads(code: int) -> int:
    """Return the exit code of a command that is over and has closed what it opened. To be called just before `sys.exit`.

    Python waits at its end for every thread, and one in which a verifier of the user's own hangs would keep the process for ever. So from
    now on threads of ours, and after an interrupt all threads, get a second to end; then the process ends without them.
    """
    if not _awaited_threads():
        return code
    # Now, because nobody does it where the process ends without Python's own end. What fails here is told there.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    were_awaited = threading.Event()
    # Python calls it once it has waited for the threads.
    atexit.register(were_awaited.set)

    def end() -> None:
        while not were_awaited.wait(_PATIENCE_S):
            left = _awaited_threads()
            if left and (code == EXIT_INTERRUPTED or all(name.startswith(OWN_THREADS) for name in left)):
                os._exit(code)

    threading.Thread(target=end, name="agon-end", daemon=True).start()
    return code


def _awaited_threads() -> list[str]:
    """Return the names of the threads that Python waits for at its end."""
    others = (thread for thread in threading.enumerate() if thread is not threading.main_thread())
    return [thread.name for thread in others if not thread.daemon]
