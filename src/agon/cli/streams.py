"""Standard error that may go away: a note that nobody can read any more ends no command."""

from __future__ import annotations

import io
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any


class _Lossy(io.FileIO):
    """A file that drops what it cannot write: its reader or its terminal is gone, or the disk behind it is full."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


@contextmanager
def lossy_stderr() -> Generator[None]:
    """Let notes on standard error be dropped in the block where they cannot be written. One that was replaced, as in tests, stays.

    A training of days is worth more than its progress: the terminal it was started from may be closed, or the log that it is sent to full.
    """
    own = sys.stderr
    if own is not sys.__stderr__:
        yield
        return
    raw = _Lossy(own.fileno(), "w", closefd=False)
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=own.encoding,
        errors="backslashreplace",
        line_buffering=True,
        write_through=True,
    )
    try:
        yield
    finally:
        sys.stderr.flush()
        sys.stderr = own
