"""Checking processes that can be killed: started when first needed, replaced when they hang, die or grow too large.

Each is a plain child process that speaks JSON lines, so that it never imports the caller's main module, inherits no open file and
no environment variable of the caller's, and starts without torch. Python's own process pools cannot kill one hung worker.
"""

from __future__ import annotations

import json
import os
import queue
import selectors
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

START_TIMEOUT_S = 120.0
# After so many failed starts in a row no more are tried: what fails that often does not fail by chance.
MAX_FAILED_STARTS = 3
_MAX_LINE = 1_000_000
_MAX_SHOWN = 80
_ENDING_SECONDS = 2.0
_SIGKILL = 9


class Reply(NamedTuple):
    """What a worker said about one message, or what became of it, and the time from the start of the check.

    `was_killed` tells a process that SIGKILL ended: by a system out of memory, or by somebody; its own limits end it otherwise.
    """

    outcome: str
    reason: str
    seconds: float
    was_killed: bool = False


class WorkerPool:
    """Has `workers` processes answer messages, from any thread.

    A process first writes the line `{"ready": true}` (or `{"failed": reason}`), then for each line of JSON that it reads one line
    `{"outcome": …, "reason": …}`. The limit of `timeout_s` runs from when a worker is given the message, never while it waits in the
    queue. `refusal` says why no process can be started, once that is known; every further message is then an error at once.
    """

    def __init__(self, command: Sequence[str], *, timeout_s: float, workers: int) -> None:
        self._command = list(command)
        self._timeout_s = timeout_s
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._workers = [_Worker(self._command) for _ in range(workers)]
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="agon-verifier")
        self._lock = threading.Lock()
        self._is_closed = False
        self._num_failed_starts = 0
        self.refusal = ""
        weakref.finalize(self, _end_all, self._workers)

    def ask(self, messages: Sequence[Any], *, timeouts_s: Sequence[float] | None = None) -> list[Reply]:
        """Return one reply for each message (any JSON value), in order. `timeouts_s` gives each its own limit."""
        limits = [self._timeout_s] * len(messages) if timeouts_s is None else timeouts_s
        with self._lock:
            assert not self._is_closed, "a closed pool was asked"
            futures: list[Future[Reply]] = [
                self._threads.submit(self._one, message, limit) for message, limit in zip(messages, limits, strict=True)
            ]
        return [future.result() for future in futures]

    def close(self) -> None:
        """End every process and wait until it is gone. Checks still queued are dropped. May be called twice."""
        with self._lock:
            self._is_closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.kill()
        self._threads.shutdown(wait=True)
        _end_all(self._workers)

    def _one(self, message: Any, timeout_s: float) -> Reply:
        worker = self._idle.get()
        try:
            reply = self._ask(worker, message, timeout_s)
            # That it was killed says nothing about the answer; a second time it does.
            return self._ask(worker, message, timeout_s) if reply.was_killed else reply
        except OSError as error:
            worker.end()
            return Reply("error", f"the checking process could not be used: {error}", 0.0)
        finally:
            self._idle.put(worker)

    def _ask(self, worker: _Worker, message: Any, timeout_s: float) -> Reply:
        failure = self.refusal or self._start(worker)
        return Reply("error", failure, 0.0) if failure else worker.ask(message, timeout_s)

    def _start(self, worker: _Worker) -> str:
        """Have a process ready; return why there is none."""
        failure = worker.start()
        with self._lock:
            self._num_failed_starts = self._num_failed_starts + 1 if failure else 0
            if self._num_failed_starts >= MAX_FAILED_STARTS and not self._is_closed:
                self.refusal = failure
        return failure


class _Worker:
    """One child process, started on demand. Used by one thread at a time; only `kill` may come from another."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ready = False
        self._is_killed = False

    def start(self) -> str:
        """Have a process ready; return why there is none, or nothing."""
        try:
            failure = self._start_if_needed()
        except OSError as error:
            failure = f"the checking process did not start: {error}"
        if failure is not None:
            self.end()
        return failure or ""

    def ask(self, message: Any, timeout_s: float) -> Reply:
        """Have the started process answer."""
        process = self._process
        assert process is not None, "a worker that did not fail to start has a process"
        start = time.monotonic()
        _pipe(process.stdin).write(json.dumps(message).encode() + b"\n")
        _pipe(process.stdin).flush()
        line = _read_line(_pipe(process.stdout), timeout_s)
        seconds = time.monotonic() - start
        if line is None:
            self._replace()
            return Reply("timeout", f"took longer than {timeout_s:g} s", seconds)
        if not line:
            failure = f"the checking process ended ({_ending(process)})"
            was_killed = process.returncode == -_SIGKILL
            self._replace()
            return Reply("error", failure, seconds, was_killed)
        reply = _read_reply(line)
        if not isinstance(reply.get("outcome"), str) or not isinstance(reply.get("reason"), str):
            self.end()
            return Reply("error", f"the checking process wrote {_shown(line)}, which is no reply", seconds)
        return Reply(reply["outcome"], reply["reason"], seconds)

    def kill(self) -> None:
        """End the process for good; whoever reads from it sees the end of the stream and closes it."""
        self._is_killed = True
        process = self._process
        if process is not None:
            process.kill()

    def end(self) -> None:
        """End the process and close its pipes; the next pair starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            _close(_pipe(process.stdin))
            _close(_pipe(process.stdout))

    def _replace(self) -> None:
        """End the process and start the next at once: it loads while others are asked, and the next message waits less for it."""
        self.end()
        if not self._is_killed:
            self._spawn()

    def _spawn(self) -> subprocess.Popen[bytes]:
        self._is_ready = False
        self._process = process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=worker_environment(),
            start_new_session=True,
        )
        return process

    def _start_if_needed(self) -> str | None:
        """Wait for the process to be ready, starting it if there is none; return why it cannot be used."""
        if self._is_killed:
            return "the checks were stopped"
        process = self._process
        if process is None or (self._is_ready and process.poll() is not None):
            self.end()
            process = self._spawn()
        if self._is_ready:
            return None
        line = _read_line(_pipe(process.stdout), START_TIMEOUT_S)
        if line is None:
            return f"the checking process was not ready after {START_TIMEOUT_S:g} s"
        if not line:
            return f"the checking process did not start ({_ending(process)})"
        reply = _read_reply(line)
        self._is_ready = bool(reply.get("ready"))
        return (
            None
            if self._is_ready
            else f"the checking process did not start: {reply.get('failed') or f'it wrote {_shown(line)}'}"
        )


def _ending(process: subprocess.Popen[bytes]) -> str:
    """How a process ended from which no line came."""
    try:
        return f"exit status {process.wait(_ENDING_SECONDS)}"
    except subprocess.TimeoutExpired:
        return f"no line of at most {_MAX_LINE:,} bytes came"


def _read_reply(line: bytes) -> dict[str, Any]:
    """The object that a line holds, empty if it holds none."""
    try:
        reply = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", reply) if isinstance(reply, dict) else {}


def _shown(line: bytes) -> str:
    return repr(line[:_MAX_SHOWN].decode(errors="replace").strip())


def module_command(module: str, *arguments: object) -> list[str]:
    """Return the command that runs a module of ours as a checking process."""
    return [sys.executable, "-P", "-m", module, *(str(argument) for argument in arguments)]


def _end_all(workers: list[_Worker]) -> None:
    for worker in workers:
        worker.end()


def worker_environment() -> dict[str, str]:
    """Return a bare environment: no secrets, the modules this process can import, and one order of sympy's sets in every process."""
    import agon

    package_root = str(Path(agon.__file__).resolve().parents[1])
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LD_LIBRARY_PATH", "SYSTEMROOT") if name in os.environ}
    return kept | {
        "PYTHONPATH": os.pathsep.join(dict.fromkeys([package_root, *(path for path in sys.path if path)])),
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
        "OMP_NUM_THREADS": "1",
    }


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None, "the process was started with pipes"
    return pipe


def _close(pipe: IO[bytes]) -> None:
    try:
        pipe.close()
    except OSError:
        # What was still to be written has no reader any more.
        return


def _read_line(pipe: IO[bytes], timeout_s: float) -> bytes | None:
    """One line, empty at the end of the stream, None if it has not come in time."""
    deadline = time.monotonic() + timeout_s
    line = b""
    with selectors.DefaultSelector() as selector:  # select.select fails beyond file number 1,024
        selector.register(pipe, selectors.EVENT_READ)
        while not line.endswith(b"\n"):
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not selector.select(remaining):
                return None
            chunk = os.read(pipe.fileno(), 65_536)
            if not chunk or len(line) > _MAX_LINE:
                return b""
            line += chunk
    return line
