"""What the sandbox is asked and what it answers."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from agon.errors import VerifierError

Ended = Literal["exit", "signal", "time", "memory", "output"]
FailureKind = Literal["exception", "time", "memory", "output", "exit", "no such name", "not plain"]


class SandboxError(VerifierError):
    """The sandbox itself cannot be used: not isolated, not started, or gone. Never the program's doing."""


class Limits(NamedTuple):
    """What one program may use.

    Units: `timeout_s` seconds of wall clock, without the time it was ready to run but had no core (at most twice the limit again);
    `memory_mb` MiB of address space beyond the interpreter's own; `output_mb` MiB of standard output and error together, and of one
    reply of a function.
    """

    timeout_s: float
    memory_mb: int
    output_mb: int


class ProgramRun(NamedTuple):
    """How a program that read standard input ended. `exit_code` is minus the signal's number when a signal ended it."""

    ended: Ended
    exit_code: int
    stdout: bytes
    stderr_tail: str
    seconds: float


class CallResult(NamedTuple):
    """What a function returned, and its arguments as they were afterwards.

    `args_after` and `kwargs_after` are None when they hold something that is not plain data any more.
    """

    value: Any
    args_after: tuple[Any, ...] | None
    kwargs_after: dict[str, Any] | None


class ProgramFailed(Exception):
    """The program, or one call of it, failed.

    After `exception`, `no such name` and `not plain` the next call may be made; after any other kind every further call fails in
    the same way. `exception_name` is the class of the exception that was raised, if one was.
    """

    def __init__(self, kind: FailureKind, message: str, *, exception_name: str = "") -> None:
        super().__init__(f"{kind}: {message}")
        self.kind: FailureKind = kind
        self.message = message
        self.exception_name = exception_name


class Layer(NamedTuple):
    """One layer of isolation, as tried on this machine."""

    name: str
    is_in_force: bool
    detail: str
