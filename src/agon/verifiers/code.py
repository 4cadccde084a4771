"""Decide whether a program passes the tests of its problem, in checking processes that can be killed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agon.config import VerifierSettings
from agon.program_tests import StdinTests, from_details
from agon.records import Outcome, Problem, Verdict
from agon.verifiers.code_worker import LIMIT, NO_SANDBOX
from agon.verifiers.judge import ALL_RUNS_S
from agon.verifiers.pool import Reply, WorkerPool, module_command
from agon.verifiers.processes import LazyPool
from agon.verifiers.tester import WALL_SECONDS

# Beyond what the sandbox itself allows: a checking process that has not answered by then has failed.
_MARGIN_S = 30.0
# The sandbox does not count time without a core, up to twice the limit again.
_STRETCH = 3.0

Job = tuple[Problem, str]

# The sandbox ends what runs too long. A checking process that did not answer in time has failed itself: an error, like all the rest.
_OUTCOMES: dict[str, Outcome] = {"correct": "correct", "wrong": "wrong", "unparsed": "unparsed", LIMIT: "timeout"}


class CodeChecker:
    """Checks programs. Safe from any thread; starts its processes with the first program.

    `refusal` says why no program can be run on this machine, once that is known.
    """

    def __init__(self, settings: VerifierSettings) -> None:
        self._settings = settings
        self._pool = LazyPool(lambda: _open_pool(settings))
        self.refusal = ""

    def check(self, jobs: Sequence[Job]) -> list[Verdict]:
        """Return one verdict for each (problem, program), in order. The same program runs once for the same tests.

        The tests are compared, not the problems' ids: these are made of the question alone.
        """
        problems = {id(problem): problem for problem, _ in jobs}
        tests = {key: json.dumps(dict(problem.details), sort_keys=True) for key, problem in problems.items()}
        distinct = {(tests[id(problem)], program): (problem, program) for problem, program in jobs}
        verdicts: dict[tuple[str, str], Verdict] = {}
        asked: dict[tuple[str, str], tuple[Any, float]] = {}
        for key, (problem, program) in distinct.items():
            try:
                asked[key] = {"program": program, "tests": dict(problem.details)}, self._limit_s(problem)
            except ValueError as error:
                verdicts[key] = Verdict("error", 0.0, str(error), program)
        messages, limits = [message for message, _ in asked.values()], [limit for _, limit in asked.values()]
        replies = self._ask(messages, limits) if messages else []
        verdicts |= {key: self._verdict(key[1], reply) for key, reply in zip(asked, replies, strict=True)}
        return [verdicts[tests[id(problem)], program] for problem, program in jobs]

    def _ask(self, messages: list[Any], limits: list[float]) -> list[Reply]:
        pool = self._pool.get()
        replies = pool.ask(messages, timeouts_s=limits)
        if pool.refusal:
            self.refusal = f"programs cannot be checked: {pool.refusal}; `agon doctor` says what this machine can run"
        return replies

    def close(self) -> None:
        """End the checking processes, and with them every program."""
        self._pool.close()

    def _limit_s(self, problem: Problem) -> float:
        tests = from_details(problem.details)
        limit_s = self._settings.code_timeout_s
        if isinstance(tests, StdinTests):
            limit_s += max(ALL_RUNS_S, limit_s)
        return _STRETCH * limit_s + WALL_SECONDS + _MARGIN_S

    def _verdict(self, program: str, reply: Reply) -> Verdict:
        if reply.outcome == NO_SANDBOX:
            self.refusal = reply.reason
        outcome = _OUTCOMES.get(reply.outcome, "error")
        return Verdict(outcome, float(outcome == "correct"), reply.reason, program)


def _open_pool(settings: VerifierSettings) -> WorkerPool:
    command = module_command(
        "agon.verifiers.code_worker",
        settings.code_timeout_s,
        settings.code_memory_mb,
        settings.code_output_mb,
        settings.memory_mb,
        "unsafe" if settings.unsafe_code_execution else "isolated",
    )
    return WorkerPool(command, timeout_s=settings.code_timeout_s, workers=settings.workers)
