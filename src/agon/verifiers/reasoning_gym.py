"""Score answers to reasoning-gym problems by the family's own scorer, in processes that can be killed.

An answer is right if its score is exactly 1.0. Anything less is wrong: many families pay a share for text that is not the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from agon.config import VerifierSettings
from agon.records import Problem, Verdict
from agon.verifiers.pool import Reply, WorkerPool, module_command
from agon.verifiers.processes import LazyPool, verdict_on_answer

MAX_CHARS = 20_000


class GymChecker:
    """Checks (problem, answer) pairs. Safe from any thread; starts its processes with the first pair."""

    def __init__(self, settings: VerifierSettings) -> None:
        self._pool = LazyPool(lambda: _open_pool(settings))

    def check(self, pairs: Sequence[tuple[Problem, str]]) -> list[Verdict]:
        """Return one verdict for each pair, in order."""
        readable = [(problem, answer) for problem, answer in pairs if len(answer) <= MAX_CHARS]
        replies = iter(self._ask(readable)) if readable else iter(())
        return [
            verdict_on_answer(next(replies), answer, problem.gold)
            if len(answer) <= MAX_CHARS
            else _too_long(problem, answer)
            for problem, answer in pairs
        ]

    def close(self) -> None:
        """End the worker processes."""
        self._pool.close()

    def _ask(self, pairs: Sequence[tuple[Problem, str]]) -> list[Reply]:
        return self._pool.get().ask([_message(problem, answer) for problem, answer in pairs])


def _open_pool(settings: VerifierSettings) -> WorkerPool:
    command = module_command("agon.verifiers.reasoning_gym_worker", settings.memory_mb, settings.timeout_s)
    return WorkerPool(command, timeout_s=settings.timeout_s, workers=settings.workers)


def _message(problem: Problem, answer: str) -> dict[str, object]:
    return {"question": problem.question, "gold": problem.gold, "answer": answer, "details": dict(problem.details)}


def _too_long(problem: Problem, answer: str) -> Verdict:
    reason = f"the answer has {len(answer)} characters; more than {MAX_CHARS} are not read"
    return Verdict("unparsed", 0.0, reason, answer[:MAX_CHARS], problem.gold)
