"""Stop on request: the first Ctrl-C (or SIGTERM, or SIGHUP) finishes the step and saves, the second stops at once."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from agon.signals import ending_signals, is_orphan


class StopRequest:
    """A context manager that turns the first SIGINT, SIGTERM or SIGHUP into a flag and lets a second one through.

    A cell whose quickstart was killed is asked to stop as well. Off the main thread, where Python allows no signal handlers, no
    signal sets the flag.
    """

    def __init__(self) -> None:
        self._was_asked = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, *ending_signals()):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @property
    def is_set(self) -> bool:
        """Whether the run is to stop after the present step."""
        return self._was_asked or is_orphan()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._was_asked:
            raise KeyboardInterrupt
        self._was_asked = True
        print("agon: finishing the step, then saving; interrupt again to stop at once", file=sys.stderr, flush=True)
