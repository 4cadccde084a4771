"""The owner's view of one program: its pipes, its clock and its end."""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress
from typing import Literal

from agon.verifiers.sandbox.records import Limits

_CHUNK = 65_536
_TAIL = 4096
_MIB = 2**20
# How much of the limit may be given again for time without a core.
_MAX_CREDIT = 2.0
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

Stop = Literal["reply", "exit", "time", "output"]


class Running:
    """A program between its start and its end. Moves bytes both ways without ever blocking on the program."""

    def __init__(self, limits: Limits, *, keeps_stdout: bool) -> None:
        self._limits = limits
        self._keeps_stdout = keeps_stdout
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.replies = bytearray()
        self.seconds = 0.0
        self._num_output = 0
        self._to_send: dict[int, memoryview] = {}
        self._poll = select.poll()
        self._files: set[int] = set()
        ends = [os.pipe2(os.O_CLOEXEC) for _ in range(5)]
        self.theirs = [ends[0][0], ends[1][1], ends[2][1], ends[3][0], ends[4][1]]
        self._stdin, self._out, self._err, self._requests, self._replies = (
            ends[0][1],
            ends[1][0],
            ends[2][0],
            ends[3][1],
            ends[4][0],
        )
        self._end = self._schedule = self._statistics = -1
        for file in (self._stdin, self._out, self._err, self._requests, self._replies):
            os.set_blocking(file, False)
            self._files.add(file)
        for file in (self._out, self._err, self._replies):
            self._poll.register(file, select.POLLIN)

    def started(self, files: list[int]) -> None:
        """Take the files that tell of the process: its end, then its scheduling and its statistics where they can be read."""
        for file in self.theirs:
            os.close(file)
        self.theirs = []
        self._end, self._schedule, self._statistics = [*files, -1, -1][:3]
        self._files.update(files)
        self._poll.register(self._end, select.POLLIN)

    def send_stdin(self, data: bytes) -> None:
        """Write all of standard input while the program runs, then close it."""
        self._send(self._stdin, data)

    def send_request(self, data: bytes) -> None:
        """Write to the channel of requests while the program runs."""
        self._send(self._requests, data)

    def pump(self, *, reply_size: int | None) -> Stop:
        """Move bytes until the program ends, breaks a limit, or has sent a reply.

        `reply_size` is None to wait for the end, else how many bytes of a reply are awaited at least.
        """
        start = time.monotonic()
        spent = self.seconds
        try:
            while True:
                if reply_size is not None and len(self.replies) >= reply_size:
                    return "reply"
                left = self._time_left(spent + time.monotonic() - start)
                if left <= 0:
                    return "time"
                ready = self._poll.poll(left * 1000 + 1)
                for file, _ in ready:
                    if file != self._end:
                        self._move(file)
                if self._is_over_output():
                    return "output"
                if any(file == self._end for file, _ in ready):
                    return self._drain()
        finally:
            self.seconds = spent + time.monotonic() - start

    def seconds_left(self) -> float:
        """Return how much of the limit is left, less than nothing once it is used up."""
        return self._time_left(self.seconds)

    def close(self) -> None:
        """Close every file that is still open."""
        for file in [*self._files, *self.theirs]:
            with suppress(OSError):
                os.close(file)
        self._files.clear()
        self.theirs = []

    def _send(self, file: int, data: bytes) -> None:
        self._to_send[file] = memoryview(data)
        if file in self._files:
            self._poll.register(file, select.POLLOUT)
            self._write(file)

    def _move(self, file: int) -> None:
        if file in self._to_send:
            self._write(file)
        else:
            self._read(file)

    def _write(self, file: int) -> None:
        data = self._to_send[file]
        try:
            while data:
                data = data[os.write(file, data[:_CHUNK]) :]
        except BlockingIOError:
            self._to_send[file] = data
            return
        except BrokenPipeError:
            self._forget(file)
            return
        del self._to_send[file]
        if file == self._stdin:
            self._forget(file)
        else:
            self._poll.unregister(file)

    def _read(self, file: int) -> bool:
        """Read once; return whether there may be more."""
        try:
            data = os.read(file, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._forget(file)
            return False
        if file == self._replies:
            self.replies += data
            return True
        self._num_output += len(data)
        if file == self._err:
            self.stderr += data
            del self.stderr[:-_TAIL]
        elif self._keeps_stdout:
            self.stdout += data
        return True

    def _drain(self) -> Stop:
        for file in (self._out, self._err, self._replies):
            while file in self._files and self._read(file):
                if self._is_over_output():
                    return "output"
        return "exit"

    def _is_over_output(self) -> bool:
        most = self._limits.output_mb * _MIB
        return self._num_output > most or len(self.replies) > most + _CHUNK

    def _forget(self, file: int) -> None:
        self._to_send.pop(file, None)
        self._poll.unregister(file)
        self._files.discard(file)
        os.close(file)

    def _time_left(self, spent: float) -> float:
        limit = self._limits.timeout_s
        if spent < limit:
            return limit - spent
        return min(limit + min(self._seconds_without_core(), _MAX_CREDIT * limit), (1 + _MAX_CREDIT) * limit) - spent

    def _seconds_without_core(self) -> float:
        """Return how long the program was ready to run and had to wait for others, as far as it can be told.

        Its first thread waits for its own threads too, those that have ended among them: at most for as long as they ran.
        """
        if self._statistics < 0:
            return 0.0
        try:
            ran_ns, waited_ns = (int(field) for field in os.pread(self._schedule, 4096, 0).split()[:2])
            # After the name in parentheses the time of all threads in and out of the kernel are the 12th and 13th field.
            fields = os.pread(self._statistics, 4096, 0).rpartition(b")")[2].split()
            all_ran_s = (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
        except (OSError, IndexError, ValueError):
            return 0.0
        return max(waited_ns / 1e9 - max(all_ran_s - ran_ns / 1e9, 0.0), 0.0)
