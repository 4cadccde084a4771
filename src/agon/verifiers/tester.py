"""The process that test code runs in: forked from the judge, confined, and asked for one program's tests after the other.

It never sees a program, and a program never sees the tests: between them stands the judge, which passes plain values on. A program that
failed once has failed, whatever the test code makes of it: `except` in a test cannot save it. What test code leaves behind (a changed
module) is trusted data of the task, and ends with the process after `MAX_TRIALS` programs; random numbers start anew for each.
"""

from __future__ import annotations

import os
import random
import resource
import selectors
import signal
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, NamedTuple, NoReturn, Protocol, Self

from agon.program_tests import CodeTests, from_details, to_details
from agon.verifiers.asking import ask
from agon.verifiers.sandbox.plain import NotPlainError, decode, encode
from agon.verifiers.sandbox.records import CallResult, ProgramFailed, SandboxError

# What the test code itself may take for one program: comparing, and computing what is expected.
TEST_SECONDS = 10.0
MAX_TRIALS = 100
_START_TIMEOUT_S = 60.0
_MAX_BYTES = 256 * 2**20
_LENGTH = struct.Struct("<I")
_MAX_PIECE = 65_536


class Session(Protocol):
    """A loaded program. A context manager: leaving it ends the program."""

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallResult:
        """Call a function of the program. Raises ProgramFailed."""
        ...

    def __enter__(self) -> Self:
        """Return the session."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> object:
        """End the program."""
        ...


class End(NamedTuple):
    """How one program's tests ended, after how many passed assertions and answered calls."""

    kind: Literal["held", "not held", "program failed", "too slow", "broken tests"]
    reason: str
    num_passed: int = 0
    num_calls: int = 0
    failure: ProgramFailed | None = None


class Tester:
    """Owns the test process. `confine` is what that process does to itself first. Used by one thread."""

    def __init__(self, confine: Callable[[], object]) -> None:
        self._confine = confine
        self._process = 0
        self._channel: socket.socket | None = None
        self._num_trials = 0

    def start(self) -> None:
        """Start the process if there is none.

        Raises:
            SandboxError: it cannot be confined.
        """
        if self._channel is not None:
            return
        ours, theirs = socket.socketpair()
        self._process = os.fork()
        if self._process == 0:
            _be_tester(theirs, self._confine)
        theirs.close()
        self._channel, self._num_trials = ours, 0
        message = receive(ours, _START_TIMEOUT_S)
        if message != ("ready",):
            self.close()
            raise SandboxError(message[1] if message else "the test process did not start")

    def hold(self, tests: CodeTests, session: Session) -> End:
        """Run the test code, and have the loaded program answer its calls.

        Raises:
            SandboxError: the test process cannot be started.
        """
        self.start()
        assert self._channel is not None, "a started tester has a channel"
        self._num_trials += 1
        end = _hold(tests, session, self._channel)
        # What did not end by itself is still waiting for an answer.
        if end.kind not in ("held", "not held") or self._num_trials >= MAX_TRIALS:
            self.close()
        return end

    def close(self) -> None:
        """End the process. May be called twice."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)


def _hold(tests: CodeTests, session: Session, channel: socket.socket) -> End:
    num_passed = num_calls = 0
    left_s = TEST_SECONDS
    send(channel, to_details(tests))
    while True:
        start = time.monotonic()
        message = receive(channel, left_s)
        left_s -= time.monotonic() - start
        match message:
            case None:
                reason = f"the test code took longer than {TEST_SECONDS:g} s of its own"
                if num_calls == 0:
                    return End("broken tests", reason)
                return End("too slow", f"{reason}, with what the program returned", num_passed, num_calls)
            case ("call", int(passed), str(name), tuple(args), dict(kwargs)):
                num_passed = passed
                try:
                    result = session.call(name, args, kwargs)
                    num_calls += 1
                    send(channel, tuple(result))
                except ProgramFailed as failure:
                    return End("program failed", "", num_passed, num_calls, failure)
                except NotPlainError as error:  # just within the limits on a value, and beyond them in its wrapping
                    failure = ProgramFailed("not plain", str(error))
                    return End("program failed", "", num_passed, num_calls, failure)
            case ("end", str(kind), str(reason), int(passed)):
                return _ended(kind, reason, passed, num_calls)
            case _:
                return End("broken tests", "their process ended")


def _ended(kind: str, reason: str, num_passed: int, num_calls: int) -> End:
    match kind:
        case "held" if num_calls == 0:
            return End("broken tests", "they never call the program")
        case "held":
            return End("held", reason, num_passed, num_calls)
        case "not held" if num_calls:
            return End("not held", reason, num_passed, num_calls)
        case _:
            return End("broken tests", reason)


def send(channel: socket.socket, message: Any) -> None:
    """Send one plain value.

    Raises:
        NotPlainError: it is none.
    """
    data = encode(message, max_bytes=_MAX_BYTES)
    channel.sendall(_LENGTH.pack(len(data)) + data)


def receive(channel: socket.socket, timeout_s: float | None) -> Any:
    """Return the next plain value, () when the other side is gone, None when none came in time."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    size = _take(channel, _LENGTH.size, deadline)
    data = _take(channel, _LENGTH.unpack(size)[0], deadline) if size else size
    return decode(data) if data else (() if data is not None else None)


def _take(channel: socket.socket, count: int, deadline: float | None) -> bytes | None:
    data = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(channel, selectors.EVENT_READ)
        while len(data) < count:
            if deadline is not None and not selector.select(max(deadline - time.monotonic(), 0)):
                return None
            try:
                piece = channel.recv(min(count - len(data), _MAX_PIECE))
            except ConnectionError:
                return b""
            if not piece:
                return b""
            data += piece
    return bytes(data)


def _be_tester(channel: socket.socket, confine: Callable[[], object]) -> NoReturn:
    """Be the test process: it keeps nothing of the judge's open but the channel."""
    try:
        kept = channel.fileno()
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        os.closerange(3, kept)
        os.closerange(kept + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        try:
            confine()
        except SandboxError as error:
            send(channel, ("refused", str(error)))
            os._exit(0)
        send(channel, ("ready",))
        while details := receive(channel, None):
            # The default action of this signal ends the process: no endless test outlives a killed judge.
            signal.setitimer(signal.ITIMER_PROF, 2 * TEST_SECONDS)
            _start_random_numbers()
            tests = from_details(details)
            assert isinstance(tests, CodeTests), "other tests need no test process"
            send(channel, ("end", *ask(tests, lambda message: _exchange(channel, message))))
            signal.setitimer(signal.ITIMER_PROF, 0)
    finally:
        os._exit(0)


def _start_random_numbers() -> None:
    random.seed(0)
    with suppress(ImportError):
        import numpy

        numpy.random.seed(0)  # noqa: NPY002 - test code draws from the global stream


def _exchange(channel: socket.socket, message: tuple[Any, ...]) -> tuple[Any, ...]:
    send(channel, message)
    answer = receive(channel, None)
    if not answer:
        os._exit(0)  # the judge has decided
    return answer
