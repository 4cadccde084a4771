"""Score answers to reasoning-gym problems by the family's own scorer, in processes that can be killed.

An answer is right if its score is exactly 1.0. Anything less is wrong: many families pay a share for text that is not the answer.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from agon.config import VerifierSettings
from agon.records import Problem, Verdict
from agon.verifiers.pool import Reply, WorkerPool, module_command

MAX_CHARS = 20_000


class GymChecker:
    """Checks (problem, answer) pairs. Safe from any thread; starts its processes with the first pair."""

    def __init__(self, settings: VerifierSettings) -> None:
        self._settings = settings
        self._pool: WorkerPool | None = None
        self._lock = threading.Lock()

    def check(self, pairs: Sequence[tuple[Problem, str]]) -> list[Verdict]:
        """Return one verdict for each pair, in order."""
        readable = [(problem, answer) for problem, answer in pairs if len(answer) <= MAX_CHARS]
        replies = iter(self._ask(readable)) if readable else iter(())
        return [
            _verdict(problem, answer, next(replies)) if len(answer) <= MAX_CHARS else _too_long(problem, answer)
            for problem, answer in pairs
        ]

    def close(self) -> None:
        """End the worker processes."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def _ask(self, pairs: Sequence[tuple[Problem, str]]) -> list[Reply]:
        with self._lock:
            if self._pool is None:
                limits = self._settings
                command = module_command("agon.verifiers.reasoning_gym_worker", limits.memory_mb, limits.timeout_s)
                self._pool = WorkerPool(command, timeout_s=limits.timeout_s, workers=limits.workers)
            pool = self._pool
        return pool.ask([_message(problem, answer) for problem, answer in pairs])


def _message(problem: Problem, answer: str) -> dict[str, object]:
    return {"question": problem.question, "gold": problem.gold, "answer": answer, "details": dict(problem.details)}


def _verdict(problem: Problem, answer: str, reply: Reply) -> Verdict:
    match reply.outcome:
        case "correct":
            return Verdict("correct", 1.0, reply.reason, answer, problem.gold)
        case "wrong" | "unparsed" | "timeout" as outcome:
            return Verdict(outcome, 0.0, reply.reason, answer, problem.gold)
        case _:
            return Verdict("error", 0.0, reply.reason, answer, problem.gold)


def _too_long(problem: Problem, answer: str) -> Verdict:
    reason = f"the answer has {len(answer)} characters; more than {MAX_CHARS} are not read"
    return Verdict("unparsed", 0.0, reason, answer[:MAX_CHARS], problem.gold)
