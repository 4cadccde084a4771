"""The process that test code runs in: forked from the judge, confined, and asked for one program's tests after the other.

It never sees a program, and a program never sees the tests: between them stands the judge, which passes plain values on. A program that
failed once has failed, whatever the test code makes of it: `except` in a test cannot save it. What test code leaves behind (a changed
module) is trusted data of the task, and ends with the process after `MAX_TRIALS` programs; random numbers start anew for each.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, NamedTuple, NoReturn, Protocol, Self

from agon.program_tests import CodeTests, from_details, to_details
from agon.verifiers.asking import ask
from agon.verifiers.channel import receive, send
from agon.verifiers.sandbox.plain import NotPlainError
from agon.verifiers.sandbox.records import CallResult, ProgramFailed, SandboxError

# What the test code itself may take for one program: comparing, and computing what is expected. Processor time, and a wall clock far
# behind it: tests must not fail because the machine is busy.
TEST_SECONDS = 10.0
WALL_SECONDS = 60.0
MAX_TRIALS = 100
_START_TIMEOUT_S = 60.0
_ENDING_SECONDS = 2.0
_MAX_BYTES = 256 * 2**20
# How the sandbox says that a value is too large to cross, and how the test process is told. A program could say so of any value: it
# would gain nothing by it.
_SAID_TOO_LARGE = "more than "
TOO_LARGE = ("too large",)


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
        may_go_on = False
        try:
            end = _hold(tests, session, self._channel, self._process)
            may_go_on = end.kind in ("held", "not held") and self._num_trials < MAX_TRIALS
            return end
        finally:
            # What did not end by itself would take the next program's tests for an answer.
            if not may_go_on:
                self.close()

    def close(self) -> None:
        """End the process. May be called twice."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)


def _hold(tests: CodeTests, session: Session, channel: socket.socket, process: int) -> End:
    num_passed = num_calls = 0
    left_s = WALL_SECONDS
    _tell(channel, to_details(tests))
    while True:
        start = time.monotonic()
        message = receive(channel, left_s)
        left_s -= time.monotonic() - start
        match message:
            case None:
                return _slow(num_passed, num_calls)
            case ("call", int(passed), str(name), tuple(args), dict(kwargs)):
                num_passed = passed
                try:
                    result = session.call(name, args, kwargs)
                    num_calls += 1
                    _tell(channel, tuple(result))
                except ProgramFailed as failure:
                    if failure.kind != "not plain" or not failure.message.startswith(_SAID_TOO_LARGE):
                        return End("program failed", "", num_passed, num_calls, failure)
                    num_calls += 1
                    _tell(channel, TOO_LARGE)
                except NotPlainError as error:  # just within the limits on a value, and beyond them in its wrapping
                    failure = ProgramFailed("not plain", str(error))
                    return End("program failed", "", num_passed, num_calls, failure)
            case ("end", str(kind), str(reason), int(passed)):
                return _ended(kind, reason, passed, num_calls)
            case _ if _ran_out_of_time(process):
                return _slow(num_passed, num_calls)
            case _:
                return End("broken tests", "their process ended")


def _tell(channel: socket.socket, message: Any) -> None:
    # A test process that is gone is seen when it should answer: only then can it be told why.
    with suppress(ConnectionError):
        send(channel, message)


def _ran_out_of_time(process: int) -> bool:
    """Whether the test process was ended by its timer. It stays to be waited for."""
    deadline = time.monotonic() + _ENDING_SECONDS
    # One that only closed its end of the channel would keep us waiting.
    while not (ended := os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT | os.WNOHANG)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return ended.si_status == signal.SIGPROF


def _slow(num_passed: int, num_calls: int) -> End:
    reason = f"the test code took longer than {TEST_SECONDS:g} s of its own"
    if num_calls == 0:
        return End("broken tests", reason)
    return End("too slow", f"{reason}, with what the program returned", num_passed, num_calls)


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
        except Exception as error:  # whatever it is, it is said by the side that can be heard
            reason = str(error) if isinstance(error, SandboxError) else f"{type(error).__name__}: {error}"
            send(channel, ("refused", reason))
            os._exit(0)
        send(channel, ("ready",))
        while details := receive(channel, None):
            # The default action of this signal ends the process, also one whose judge was killed.
            signal.setitimer(signal.ITIMER_PROF, TEST_SECONDS)
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
    return () if answer == TOO_LARGE else answer
