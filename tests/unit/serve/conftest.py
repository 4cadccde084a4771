"""Jobs over bare prompts, and a loop to play them on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

import pytest

from agon.match.asking import Sampling
from agon.match.lineups import lineup_for
from agon.records import Problem
from agon.serve.cascade import play_job
from agon.serve.records import Job

PROBLEM = Problem(id="p1", question="1+1", gold="2", task="t", verifier="exact")
SAMPLING = Sampling(max_draft_tokens=200, max_challenge_tokens=200, max_summary_tokens=100)


@pytest.fixture
def make_job(make_session) -> Callable[..., Job]:
    """Return a function that makes a job of the prompts and the summaries of a session without a model."""
    session, _ = make_session(lambda prompt, request: "")

    def make(protocol="cascade", *, problem=PROBLEM, can_check=True, sampling=SAMPLING, lineup=None, **fields) -> Job:
        return Job(
            problem=problem,
            can_check=can_check,
            lineup=lineup or lineup_for(protocol),
            sampling=sampling,
            prompts=session.prompts,
            summarizer=session,
            style=session.style,
            **fields,
        )

    return make


@pytest.fixture
def check(make_session):
    """Right if the answer is the gold's text."""
    session, _ = make_session(lambda prompt, request: "")

    async def one(problem, completion, style):
        (verdict,) = session.verifiers.verify([(problem, completion)], style)
        return verdict

    return one


@pytest.fixture
def collect():
    """Return a function that plays a job to its end and returns its events."""

    async def play(backend, job, check):
        async with aclosing(play_job(backend, job, check)) as events:
            return [event async for event in events]

    return lambda backend, job, check: asyncio.run(play(backend, job, check))
