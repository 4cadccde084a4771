"""Stop on request: the first Ctrl-C (or SIGTERM) finishes the step and saves, the second stops at once."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class StopRequest:
    """A context manager that turns the first SIGINT or SIGTERM into a flag and lets a second one through.

    Off the main thread, where Python allows no signal handlers, it is a flag that nobody sets.
    """

    def __init__(self) -> None:
        self.is_set = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.is_set:
            raise KeyboardInterrupt
        self.is_set = True
        print("agon: finishing the step, then saving; interrupt again to stop at once", file=sys.stderr, flush=True)
