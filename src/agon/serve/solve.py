"""One problem played by a service, without a server: what `agon solve` does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from agon.match.unchecked import NOT_CHECKED
from agon.records import Match
from agon.serve.cascade import play_job
from agon.serve.models import Offer, direction_of
from agon.serve.records import Event, Job, MatchEnded
from agon.serve.service import Service
from agon.tasks.typed import typed_problem


def job_of(offer: Offer, text: str, *, gold: str | None, seed: int) -> Job:
    """Return one match of the problem in `text` by the default model.

    Raises:
        DataError: the text is no problem of the run's task.
    """
    problem, can_check = typed_problem(offer.task, text, gold)
    return Job(
        problem=problem,
        can_check=can_check,
        lineup=offer.models[offer.default],
        sampling=offer.sampling,
        prompts=offer.prompts,
        summarizer=offer.summarizer,
        style=offer.style,
        seed=seed,
    )


def solve(service: Service, job: Job, tell: Callable[[Event], None] = lambda event: None) -> Match:
    """Play a job of one match, and `tell` of it while it grows.

    Raises:
        EngineError: the request does not fit, or what samples failed.
    """
    return asyncio.run(_play(service, job, tell))


async def _play(service: Service, job: Job, tell: Callable[[Event], None]) -> Match:
    await service.backend.start()
    try:
        async with aclosing(play_job(service.backend, job, service.check)) as events:
            async for event in events:
                tell(event)
                if isinstance(event, MatchEnded):
                    return event.match
    finally:
        await service.backend.close()
    raise AssertionError("a job ends with its last match, or raises")


def solved_json(match: Match, job: Job) -> dict[str, Any]:
    """Return what `agon solve --json` prints."""
    stages = {attempt.role: attempt for attempt in match.attempts}
    return {
        "direction": direction_of(job.lineup),
        "seed": job.seed,
        "problem": match.problem.question,
        "answer": match.final.verdict.answer,
        "verdict": None if match.final.verdict.reason == NOT_CHECKED else match.final.verdict.outcome,
        "summary": match.summaries[0].text if match.summaries else None,
        "summary_is_empty": match.summaries[0].is_empty if match.summaries else None,
        **{
            role: {
                "adapter": attempt.adapter,
                "text": attempt.completion.text,
                "tokens": attempt.completion.num_tokens,
                "is_truncated": attempt.completion.is_truncated,
            }
            for role, attempt in stages.items()
        },
    }
