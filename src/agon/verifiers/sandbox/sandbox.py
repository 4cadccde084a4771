"""The owner's side of the sandbox: starts the process that programs are forked from, and runs them one at a time."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from agon.verifiers.sandbox.functions import FunctionSession
from agon.verifiers.sandbox.layers import is_isolated, missing
from agon.verifiers.sandbox.linux import is_supported
from agon.verifiers.sandbox.private_root import why_unreadable
from agon.verifiers.sandbox.program import HEADER
from agon.verifiers.sandbox.records import Ended, Layer, Limits, ProgramRun, SandboxError
from agon.verifiers.sandbox.running import Running, Stop

_START_TIMEOUT_S = 60.0
_ANSWER_TIMEOUT_S = 20.0
_MIB = 2**20


class Sandbox:
    """Runs untrusted programs, each in a process of its own that nothing is left of. Used by one thread, one program at a time.

    Everything under it dies with the thread that started it: that is how Linux watches over a parent.
    """

    def __init__(self, *, is_unsafe_allowed: bool, left_out: Sequence[str] = ()) -> None:
        """`left_out` names layers not to enter, to see what the others hold."""
        self._is_unsafe_allowed = is_unsafe_allowed
        self._left_out = ",".join(left_out)
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._running: Running | None = None
        self.layers: list[Layer] = []

    def start(self) -> None:
        """Start the process that programs are forked from. Does nothing if there is one.

        Raises:
            SandboxError: this system cannot isolate a program, or the process did not start.
        """
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        if not is_supported():
            raise SandboxError(
                f"programs can only be run on 64-bit Linux (x86_64 or aarch64), and this is {sys.platform}"
            )
        self._process = process = self._start_process()
        self.layers = [Layer(*layer) for layer in self._hear_layers(process)]
        if not self._is_unsafe_allowed and not is_isolated(self.layers):
            self.close()
            raise SandboxError(
                f"programs cannot be isolated here, missing: {missing(self.layers)}; run where user namespaces or Landlock are allowed, "
                "or accept the risk with --unsafe-code-execution"
            )

    def run(self, program: str, stdin: bytes, limits: Limits) -> ProgramRun:
        """Run a program as a script that reads `stdin`, to its end or to a limit.

        Raises:
            SandboxError: the sandbox itself failed.
        """
        running = self._start_program(limits, is_run=True)
        try:
            source = program.encode("utf-8", "surrogatepass")
            running.send_request(HEADER.pack(len(source), bytes(16)) + source)
            running.send_stdin(stdin)
            return self._finish(running, limits, running.pump(reply_size=None))
        except BaseException:
            self.close()
            raise

    def load(self, program: str, limits: Limits) -> FunctionSession:
        """Load a program whose functions are to be called. Close the session, or use it in a `with` statement.

        Raises:
            ProgramFailed: loading it raised, broke a limit or ended the process.
            SandboxError: the sandbox itself failed.
        """
        running = self._start_program(limits, is_run=False)
        running.send_stdin(b"")
        session = FunctionSession(running, limits, lambda stop: self._finish(running, limits, stop))
        session.load(program)
        return session

    def close(self) -> None:
        """End everything, and wait until it is gone. A later call starts afresh."""
        running, self._running = self._running, None
        if running is not None:
            running.close()
        control, self._control = self._control, None
        if control is not None:
            control.close()
        process, self._process = self._process, None
        if process is not None:
            try:
                process.wait(_ANSWER_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                with suppress(PermissionError):  # a confined owner cannot
                    process.kill()
                    process.wait()

    def _start_program(self, limits: Limits, *, is_run: bool) -> Running:
        assert self._running is None, "a sandbox runs one program at a time: close the session first"
        self.start()
        job = {
            "is_run": is_run,
            "memory_mb": limits.memory_mb,
            # More than the wall clock allows: a second line, should this process be held up. It is counted in ticks, which on a busy
            # machine run ahead of the time that was really spent.
            "cpu_s": math.ceil(1.5 * limits.timeout_s) + 1,
            "max_reply_bytes": limits.output_mb * _MIB,
        }
        self._running = running = Running(limits, keeps_stdout=is_run)
        try:
            socket.send_fds(self._socket(), [json.dumps(job).encode()], running.theirs)
            _, files = self._hear(_ANSWER_TIMEOUT_S)
            running.started(files)
        except OSError as error:
            self.close()
            raise SandboxError(f"the sandbox could not start a program: {error}") from error
        except BaseException:
            self.close()
            raise
        return running

    def _finish(self, running: Running, limits: Limits, stop: Stop) -> ProgramRun:
        """See a program to its end: end it unless it has ended, and wait until nothing is left of it."""
        try:
            if stop != "exit":
                self._socket().send(b"end")
            message, _ = self._hear(_ANSWER_TIMEOUT_S)
            running.close()
        except OSError as error:
            self.close()
            raise SandboxError(f"the sandbox could not end a program: {error}") from error
        self._running = None
        code: int = message["exit"]
        return ProgramRun(
            _how_it_ended(stop, code, message["cpu_s"], running, limits),
            code,
            bytes(running.stdout),
            running.stderr.decode("utf-8", "replace"),
            running.seconds,
        )

    def _start_process(self) -> subprocess.Popen[bytes]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = ours
        with theirs:
            module, control = "agon.verifiers.sandbox.zygote", str(theirs.fileno())
            try:
                return subprocess.Popen(
                    [sys.executable, "-P", "-s", "-m", module, control, self._left_out],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    env=_environment(),
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                    cwd="/",
                )
            except OSError as error:
                self.close()
                raise SandboxError(f"the sandbox could not be started: {why_unreadable() or error}") from error

    def _hear_layers(self, process: subprocess.Popen[bytes]) -> list[Any]:
        assert process.stderr is not None, "the process was started with a pipe"
        with process.stderr as errors:
            try:
                return self._hear(_START_TIMEOUT_S)[0]["layers"]
            except SandboxError as error:
                # It has ended: all that it had to say is there.
                last = why_unreadable() or errors.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
                raise SandboxError(f"{error}: {last}") if last else error from None

    def _hear(self, timeout_s: float) -> tuple[dict[str, Any], list[int]]:
        control = self._socket()
        control.settimeout(timeout_s)
        try:
            data, files, _, _ = socket.recv_fds(control, 65_536, 8, socket.MSG_CMSG_CLOEXEC)
        except TimeoutError:
            self.close()
            raise SandboxError(f"the sandbox did not answer within {timeout_s:g} s") from None
        message = json.loads(data) if data else {"failed": "its process ended"}
        if "failed" in message:
            self.close()
            raise SandboxError(f"the sandbox failed: {message['failed']}")
        return message, files

    def _socket(self) -> socket.socket:
        if self._control is None:
            raise SandboxError("the sandbox was closed")
        return self._control


def _how_it_ended(stop: Stop, code: int, cpu_s: float, running: Running, limits: Limits) -> Ended:
    if stop == "time" or stop == "output":
        return stop
    if code == -signal.SIGXCPU or (code == -signal.SIGKILL and cpu_s >= 0.5 * limits.timeout_s):
        return "time"
    if code > 0 and running.replies.startswith(b"M"):
        return "memory"
    return "signal" if code < 0 else "exit"


def _environment() -> dict[str, str]:
    import agon

    return {
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(Path(agon.__file__).resolve().parents[1]),
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        # The C library takes 64 MiB of address space for each thread's own heap: sixteen threads would use the whole limit up.
        "MALLOC_ARENA_MAX": "1",
    }
