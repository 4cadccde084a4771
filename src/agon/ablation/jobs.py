"""Processes side by side: a few at once, every one with a log; an interrupt is passed on once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from agon.ablation.launch import Job, Process, start
from agon.signals import termination_as_interrupt

_POLL_S = 0.2
OnTick = Callable[[Sequence[str]], None]
"""Told the names of the running jobs, a few times a second."""


class Failure(NamedTuple):
    """A job that ended with an error: the last line it printed, where the others are, and its exit code."""

    name: str
    reason: str
    log: Path
    exit_code: int

    def __str__(self) -> str:
        return f"cell {self.name}: {self.reason} (log: {self.log})"


def default_parallel() -> int:
    """Return how many single-threaded processes this one may run side by side: one for each core it may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_jobs(
    jobs: Sequence[Job], *, num_parallel: int, on_tick: OnTick, keep_going: bool, devices: Sequence[str] = ()
) -> list[Failure]:
    """Run every job, at most `num_parallel` at once, and return those that failed. Without `keep_going` the first failure stops the rest.

    Each job sees one of the CUDA `devices`: that with the fewest jobs on it.

    Raises:
        KeyboardInterrupt: after every running job has been interrupted and has ended.
        RunError: a log cannot be written.
    """
    running: dict[str, Process] = {}
    try:
        with termination_as_interrupt():
            return _run_all(
                list(jobs), running, num_parallel=num_parallel, on_tick=on_tick, keep_going=keep_going, devices=devices
            )
    finally:
        _stop(running.values())


def _run_all(
    waiting: list[Job],
    running: dict[str, Process],
    *,
    num_parallel: int,
    on_tick: OnTick,
    keep_going: bool,
    devices: Sequence[str],
) -> list[Failure]:
    placed: dict[str, str | None] = {}
    logs = {job.name: job.log for job in waiting}
    failures: list[Failure] = []
    while waiting or running:
        while waiting and len(running) < num_parallel:
            job = waiting.pop(0)
            taken = [placed[name] for name in running]
            # The one with the fewest jobs, the first of equals.
            device = placed[job.name] = min(devices, key=taken.count, default=None)
            running[job.name] = start(job, device)
        time.sleep(_POLL_S)
        on_tick(list(running))
        codes = {name: process.poll() for name, process in running.items()}
        for name, code in codes.items():
            if code is not None:
                del running[name]
                if code != 0:
                    failures.append(_failure(name, logs[name], code))
        if failures and not keep_going:
            break
    return failures


def _failure(name: str, log: Path, code: int) -> Failure:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    reason = lines[-1].removeprefix("agon: ") if lines else f"ended with code {code} and said nothing"
    if code < 0:
        reason = f"ended by signal {-code}" + (f" after: {reason}" if lines else "")
    return Failure(name, reason, log, code if code > 0 else 1)


def _stop(processes: Iterable[Process]) -> None:
    alive = [process for process in processes if process.poll() is None]
    for process in alive:
        process.interrupt()
    try:
        for process in alive:
            process.wait()
    except KeyboardInterrupt:
        # A second interrupt: the jobs are in sessions of their own and would otherwise live on.
        for process in alive:
            process.kill()
        raise
