"""Many verdicts one by one, each with the time that it took."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

from agon.config import VerifierSettings
from agon.program_tests import Case, CaseTests, to_details
from agon.records import AnswerStyle, Completion, Problem, StopReason, Verdict
from agon.verifiers.registry import Verifiers, open_verifiers

# After these outcomes a checking process may be gone, and the next check would wait for another to start.
_MAY_END_THE_PROCESS = ("timeout", "error")


class Check(NamedTuple):
    """One completion to be judged. `source` says where it is from and comes back unchanged.

    Without a `style` the whole text is the program to be run: nothing is extracted.
    """

    problem: Problem
    completion: Completion
    style: AnswerStyle | None
    source: Any


class Judged(NamedTuple):
    """A check with its verdict, and the time that the verdict took: neither waiting for its turn nor starting a process counts."""

    check: Check
    verdict: Verdict
    seconds: float


def judge_each(checks: Iterable[Check], settings: VerifierSettings, on_judged: Callable[[int, Judged], None]) -> None:
    """Have every check judged on its own, `settings.workers` side by side; `on_judged` gets each with its place in `checks`.

    Each thread has checkers of its own with one process, so that it knows when that process has to start and can leave the start
    out of the time. `on_judged` is never called by two threads at once.

    Raises:
        VerifierError: programs cannot be run on this machine at all.
    """
    todo = _Todo(checks)
    lock = threading.Lock()
    # Errors are counted by whoever asked, however many there are.
    alone = settings.model_copy(update={"workers": 1, "max_error_share": 1.0})
    opened = [open_verifiers(alone) for _ in range(settings.workers)]

    def work(verifiers: Verifiers) -> None:
        starter = _Starter()
        while (item := todo.next()) is not None:
            place, check = item
            starter.start(verifiers, check.problem.verifier)
            judged = judge_one(verifiers, check)
            verifiers.check_error_share()
            starter.note(judged.verdict)
            with lock:
                on_judged(place, judged)

    threads = ThreadPoolExecutor(settings.workers, thread_name_prefix="agon-audit")
    try:
        futures = [threads.submit(work, verifiers) for verifiers in opened]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            # An interrupt waits for no check that hangs.
            todo.stop()
            _close(opened)
            threads.shutdown(wait=False)
        wait(futures)
    finally:
        _close(opened)
    for future in futures:
        future.result()


def judge_all(
    checks: Sequence[Check], settings: VerifierSettings, progress: Callable[[int, int], None]
) -> list[Judged]:
    """Have every check judged and return the verdicts in order; `progress` gets how many are done, and of how many."""
    judged: dict[int, Judged] = {}

    def on_judged(place: int, one: Judged) -> None:
        judged[place] = one
        progress(len(judged), len(checks))

    judge_each(checks, settings, on_judged)
    return [judged[place] for place in range(len(checks))]


def judge_one(verifiers: Verifiers, check: Check) -> Judged:
    """Judge one check and take the time."""
    start = time.monotonic()
    if check.style is None:
        (verdict,) = verifiers.verify_programs([(check.problem, check.completion.text)])
    else:
        (verdict,) = verifiers.verify([(check.problem, check.completion)], check.style)
    return Judged(check, verdict, time.monotonic() - start)


def written(text: str, stop_reason: StopReason = "stop") -> Completion:
    """Return a completion for a text that no model was seen to sample."""
    return Completion(token_ids=(), logprobs=(), text=text, stop_reason=stop_reason, adapter=None, adapter_version=0)


def _close(opened: list[Verifiers]) -> None:
    for verifiers in opened:
        verifiers.close()


class _Todo:
    """The checks still to be done, taken by several threads."""

    def __init__(self, checks: Iterable[Check]) -> None:
        self._checks: Iterator[tuple[int, Check]] = iter(enumerate(checks))
        self._lock = threading.Lock()
        self._is_over = False

    def next(self) -> tuple[int, Check] | None:
        with self._lock:
            return None if self._is_over else next(self._checks, None)

    def stop(self) -> None:
        self._is_over = True


class _Starter:
    """Has a checker's process started before a check is timed."""

    def __init__(self) -> None:
        self._num_started = 0
        self._running: set[str] = set()

    def start(self, verifiers: Verifiers, verifier: str) -> None:
        if verifier in self._running:
            return
        # Another pair each time, since verdicts are remembered, and one that no rule decides without the process.
        self._num_started += 1
        number = self._num_started
        if verifier == "math":
            problem = Problem("start", "", f"x+{number}", "start", "math")
            verifiers.verify([(problem, written(rf"\boxed{{{number}+x}}"))], "boxed")
        elif verifier == "code":
            tests = to_details(CaseTests("number", (Case((), number),)))
            problem = Problem("start", "", "", "start", "code", details=tests)
            verifiers.verify_programs([(problem, f"def number():\n    return {number}\n")])
        self._running.add(verifier)

    def note(self, verdict: Verdict) -> None:
        if verdict.outcome in _MAY_END_THE_PROCESS:
            self._running.clear()
