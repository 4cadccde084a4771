"""How the process of a job starts: forked from one that has loaded everything, or as a program of its own.

Loading torch, transformers and peft takes a CPU some seconds, as long as a small cell trains. A fork takes a tenth of a second. Where
there is a CUDA device nothing is forked: a process that has looked at the device cannot hand it on.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NoReturn, Protocol

from agon.ablation.logged import run_logged
from agon.runs.atomic import output_errors
from agon.signals import PARENT_VARIABLE, without_hung_threads

# Not SIGINT, which all that a shell starts in its background is made to ignore.
_ENDING = signal.SIGTERM
_PRELOADED = ["agon.train.run", "agon.evaluation.request", "agon.ablation.worker"]


@dataclass(frozen=True, slots=True)
class Job:
    """One process: `main(arguments)` of a module, and the file that takes what it prints, without secrets."""

    name: str
    module: str
    arguments: tuple[str, ...]
    log: Path


class Process(Protocol):
    """A job's process. It is in a session of its own: the terminal's Ctrl-C reaches it once, through us, and not twice."""

    def poll(self) -> int | None:
        """Return the exit code (minus the signal's number if one ended it), or None while it runs."""
        ...

    def interrupt(self) -> None:
        """Ask it to save and end."""
        ...

    def wait(self) -> None:
        """Wait for its end."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...


def start(job: Job, device: str | None = None) -> Process:
    """Start a job's process, with one thread for arithmetic. `device`: the one CUDA device it sees, as CUDA_VISIBLE_DEVICES names it.

    Raises:
        RunError: the log cannot be written.
    """
    with output_errors(job.log):
        job.log.parent.mkdir(parents=True, exist_ok=True)
        # A new file: a link of that name is not written through.
        job.log.unlink(missing_ok=True)
        job.log.write_bytes(b"")
    return _start_fork(job) if can_fork() else _start_program(job, device)


def warm_up() -> None:
    """Let the process that jobs are forked from load everything, beside whatever the caller does next. Where nothing is forked: nothing."""
    if can_fork():
        _serve_forks()


@cache
def can_fork() -> bool:
    """Whether jobs are forked: on Linux, without a CUDA device. Other systems' own libraries do not all live through a fork."""
    # Here, because every fork loads this module.
    import torch

    return sys.platform == "linux" and not torch.cuda.is_available()


def cuda_devices() -> list[str]:
    """Return the CUDA devices that jobs can be given, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    named = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    count = torch.cuda.device_count()
    return named[:count] if named else [str(index) for index in range(count)]


class _Program:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def poll(self) -> int | None:
        return self._process.poll()

    def interrupt(self) -> None:
        self._process.send_signal(_ENDING)

    def wait(self) -> None:
        self._process.wait()

    def kill(self) -> None:
        self._process.kill()


class _Fork:
    def __init__(self, process: BaseProcess) -> None:
        self._process = process

    def poll(self) -> int | None:
        return self._process.exitcode

    def interrupt(self) -> None:
        if self._process.pid is not None and self._process.is_alive():
            os.kill(self._process.pid, _ENDING)

    def wait(self) -> None:
        self._process.join()

    def kill(self) -> None:
        self._process.kill()


def _start_program(job: Job, device: str | None) -> Process:
    seen = {} if device is None else {"CUDA_VISIBLE_DEVICES": device}
    with job.log.open("wb") as log:
        return _Program(
            subprocess.Popen(
                [sys.executable, "-m", "agon.ablation.logged", job.module, *job.arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **_environment(), **seen, PARENT_VARIABLE: str(os.getpid())},
                start_new_session=True,
            )
        )


def _start_fork(job: Job) -> Process:
    _serve_forks()
    arguments = (job.module, job.arguments, str(job.log))
    process = multiprocessing.get_context("forkserver").Process(target=_run_forked, args=arguments, name=job.name)
    process.start()
    return _Fork(process)


def _serve_forks() -> None:
    with _set_environment(_environment()):
        multiprocessing.get_context("forkserver").set_forkserver_preload(_PRELOADED)
        forkserver.ensure_running()


def _run_forked(module: str, arguments: tuple[str, ...], log: str) -> NoReturn:
    os.setsid()
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.close(descriptor)
    # Whoever started the server is not this process's parent; `is_orphan` asks multiprocessing instead.
    os.environ.pop(PARENT_VARIABLE, None)
    sys.exit(without_hung_threads(run_logged(module, arguments)))


def _environment() -> dict[str, str]:
    """One thread each: two single-threaded trainings of a small model are several times faster than one with two threads."""
    return {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "passive")}


@contextmanager
def _set_environment(values: Mapping[str, str]) -> Generator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
