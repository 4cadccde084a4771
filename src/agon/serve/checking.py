"""Verdicts for the server: what checks a completion, off the event loop and never raising."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor

from agon.answers import extract_answer
from agon.records import AnswerStyle, Completion, Problem, Verdict
from agon.serve.records import Job
from agon.verifiers.base import Verifier

# These decide in the caller's thread, in less time than it takes to wake another.
_QUICK = frozenset({"exact", "expression", "numeric"})
_LONG_TEXT = 4_000

Check = Callable[[Problem, Completion, AnswerStyle], Awaitable[Verdict]]


def checked_in(threads: Executor, verifier: Verifier) -> Check:
    """Return a check that asks the verifier: in one of the threads where it may take long, else at once."""

    async def check(problem: Problem, completion: Completion, style: AnswerStyle) -> Verdict:
        pairs = [(problem, completion)]
        if problem.verifier in _QUICK and len(completion.text) < _LONG_TEXT:
            (verdict,) = verifier.verify(pairs, style)
        else:
            loop = asyncio.get_running_loop()
            (verdict,) = await loop.run_in_executor(threads, verifier.verify, pairs, style)
        return verdict

    return check


async def verdict_of(job: Job, completion: Completion, check: Check) -> Verdict:
    """Return what the check decides about a completion; its own failure is the outcome `error`."""
    try:
        return await check(job.problem, completion, job.style)
    except Exception as error:  # whatever fails here is the checker's own fault
        answer = extract_answer(completion.text, job.style)
        return Verdict("error", 0.0, f"{type(error).__name__}: {error}"[:200], answer, job.problem.gold)
