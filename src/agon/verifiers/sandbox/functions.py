"""Calls of a program's functions from the trusted side."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, NoReturn, cast

from agon.verifiers.sandbox import plain
from agon.verifiers.sandbox.program import HEADER
from agon.verifiers.sandbox.records import CallResult, FailureKind, Limits, ProgramFailed, ProgramRun
from agon.verifiers.sandbox.running import Running, Stop

_MIB = 2**20
# Rebuilding replies is part of the program's time, but one that answered in time never fails for want of a few milliseconds.
_GRACE_TO_REBUILD_S = 0.5


class FunctionSession:
    """A loaded program whose functions can be called, one call after another in one process.

    All calls and the loading share one `timeout_s`; the time between calls does not count. What a function changes stays changed
    for the next call, and what it prints is counted and dropped.
    """

    def __init__(self, running: Running, limits: Limits, end: Callable[[Stop], ProgramRun]) -> None:
        self._running = running
        self._limits = limits
        self._end = end
        self._failure: ProgramFailed | None = None
        self._is_ended = False

    def __enter__(self) -> FunctionSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def call(self, name: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> CallResult:
        """Call the function of that name with copies of plain data, and return a copy of what it returned.

        Arguments that it left as they were come back as the objects that were given.

        Raises:
            ProgramFailed: there is no such function, it raised, broke a limit, ended the process, or returned no plain data.
            NotPlainError: the arguments are not plain data; nothing was called.
            SandboxError: the sandbox itself failed.
        """
        if self._failure is not None:
            raise self._failure
        keywords = dict(kwargs or {})
        request = plain.encode([name, tuple(args), keywords], max_bytes=256 * _MIB)
        kind, body = self._ask(request)
        if kind == b"S":
            return CallResult(self._rebuild(body), tuple(args), keywords)
        if kind == b"C":
            (size,) = struct.unpack_from("<I", body) if len(body) >= 4 else (0,)
            return CallResult(self._rebuild(body[4 : 4 + size]), *self._arguments(body[4 + size :]))
        if kind == b"L":
            return CallResult(self._rebuild(body), None, None)
        self._fail_for(kind, body, name)

    def close(self) -> None:
        """End the program, and wait until nothing is left of it."""
        if self._failure is None:
            self._give_up("exit", "the session was closed")

    def load(self, program: str) -> None:
        """Run the program's text once, as a module.

        Raises:
            ProgramFailed: it raised, broke a limit or ended the process.
        """
        kind, body = self._ask(program.encode("utf-8", "surrogatepass"))
        if kind != b"R":
            try:
                self._fail_for(kind, body, "")
            except ProgramFailed:
                self.close()
                raise

    def _ask(self, request: bytes) -> tuple[bytes, bytes]:
        # Only what carries this number is an answer to this request: nothing can be said in advance.
        nonce = os.urandom(16)
        running = self._running
        running.replies.clear()
        running.send_request(HEADER.pack(len(request), nonce) + request)
        self._await(HEADER.size)
        size, echo = HEADER.unpack_from(running.replies)
        if echo != nonce or size < 1:
            self._fail("not plain", "its reply was not one to the call")
        if size > self._limits.output_mb * _MIB:
            self._fail("output", f"a reply of more than {self._limits.output_mb} MB")
        self._await(HEADER.size + size)
        if len(running.replies) != HEADER.size + size:
            self._fail("not plain", "it sent more than one reply")
        reply = bytes(running.replies[HEADER.size :])
        return reply[:1], reply[1:]

    def _await(self, reply_size: int) -> None:
        stop = self._running.pump(reply_size=reply_size)
        if stop == "reply":
            return
        if stop == "exit" and len(self._running.replies) >= reply_size:
            return
        limits = self._limits
        if stop == "time":
            self._fail("time", f"took longer than {limits.timeout_s:g} s")
        if stop == "output":
            self._fail("output", f"wrote more than {limits.output_mb} MB")
        run = self._end(stop)
        self._failure = ProgramFailed(
            "time" if run.ended == "time" else "exit", f"the program ended ({run.ended} {run.exit_code})"
        )
        raise self._failure

    def _rebuild(self, data: bytes) -> Any:
        # Processor time: on a busy machine this process waits as well, which is not the program's doing.
        start = time.thread_time()
        try:
            return plain.decode(data, deadline=start + self._running.seconds_left() + _GRACE_TO_REBUILD_S)
        except plain.NotPlainError as error:
            raise ProgramFailed("not plain", str(error)) from None
        except TimeoutError as error:
            self._fail("time", str(error))
        finally:
            self._running.seconds += time.thread_time() - start

    def _arguments(self, data: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        parts = self._rebuild(data)
        if type(parts) is not list or len(parts) != 3 or type(parts[1]) is not tuple or type(parts[2]) is not dict:
            raise ProgramFailed("not plain", "its arguments came back as something else")
        return cast("tuple[tuple[Any, ...], dict[str, Any]]", (parts[1], parts[2]))

    def _fail_for(self, kind: bytes, body: bytes, name: str) -> NoReturn:
        text = body.decode("utf-8", "replace")
        if kind == b"E":
            exception_name, _, message = text.partition("\0")
            raise ProgramFailed("exception", f"{exception_name}: {message}", exception_name=exception_name)
        if kind == b"N":
            raise ProgramFailed("not plain", text)
        if kind == b"U":
            raise ProgramFailed("no such name", f"no function {name!r}")
        if kind == b"M":
            raise ProgramFailed("memory", f"needs more than {self._limits.memory_mb} MB")
        if kind == b"X":
            self._fail("exit", text)
        self._fail("not plain", "its reply cannot be read")

    def _fail(self, kind: FailureKind, message: str) -> NoReturn:
        self._give_up(kind, message)
        assert self._failure is not None, "giving up leaves a failure"
        raise self._failure

    def _give_up(self, kind: FailureKind, message: str) -> None:
        self._failure = ProgramFailed(kind, message)
        if not self._is_ended:
            self._is_ended = True
            self._end("reply")
