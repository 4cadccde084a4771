"""A job's process as its log sees it: whatever it prints, warnings and tracebacks of any library among it, is kept without secrets."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any, TextIO, cast

from agon.secrecy import redact_text
from agon.signals import without_hung_threads

# A line without an end, such as that of a progress bar, is not kept back for ever.
_MOST_CHARACTERS = 65_536


class RedactedStream:
    """Stands for a text stream, and writes to it line by line, without secrets."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._line = ""
        self._lock = threading.RLock()

    def write(self, text: str) -> int:
        """Take a text; what has no end of line yet is kept until it has, or until `flush`."""
        with self._lock:
            self._line += text
            whole, end, self._line = self._line.rpartition("\n")
            if end:
                self._stream.write(redact_text(whole) + end)
            if len(self._line) > _MOST_CHARACTERS:
                self._write_rest()
        return len(text)

    def writelines(self, lines: Sequence[str]) -> None:
        """Take several texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Write all that was taken."""
        with self._lock:
            self._write_rest()
            self._stream.flush()

    def _write_rest(self) -> None:
        self._stream.write(redact_text(self._line))
        self._line = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def run_logged(module: str, arguments: Sequence[str]) -> int:
    """Call `main(arguments)` of a module, with standard output and standard error redacted, and return its exit code."""
    for name in ("stdout", "stderr"):
        before = getattr(sys, name)
        after = cast(TextIO, RedactedStream(before))
        setattr(sys, name, after)
        _redirect_handlers(before, after)
    try:
        return import_module(module).main(arguments)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _redirect_handlers(before: TextIO, after: TextIO) -> None:
    """Let loggers that were set up before, in the process this one was forked from, write there as well."""
    known = [logging.getLogger(name) for name in logging.Logger.manager.loggerDict]
    for logger in (logging.getLogger(), *known):
        for handler in logger.handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream is before:
                handler.setStream(after)


if __name__ == "__main__":
    sys.exit(without_hung_threads(run_logged(sys.argv[1], sys.argv[2:])))
