"""Connections: one for each request at a time, and kept for the next."""

from __future__ import annotations

import asyncio

import pytest

from agon.serve.backend import EndpointError


def test_connections_are_kept_for_the_next_requests(trial):
    async def script(seen):
        await asyncio.sleep(0.02)
        seen.answer("fine")

    async def play(backend, endpoint):
        job = trial.job(samples=20)
        counts = []
        for _ in range(2):
            await asyncio.gather(*(trial.sample(backend, job, turn) for turn in trial.exchange(job).begin()))
            counts.append(endpoint.num_connections)
        return counts

    # One more than the drafts: the challenger's place asked for its models.
    assert trial.run(play, script) == [21, 21]


def test_a_connection_that_was_left_in_the_middle_is_not_used_again(trial):
    async def script(seen):
        seen.start_stream()
        seen.say("one")
        await seen.writer.drain()
        await asyncio.sleep(0.05)
        seen.say("two", "stop")
        seen.end_stream()

    async def play(backend, endpoint):
        job = trial.job("drafter")
        turn = trial.exchange(job).begin()[0]
        left = backend.sample(turn, job)
        assert (await anext(left)).text == "one"
        await left.aclose()
        return [piece.text for piece in await trial.sample(backend, job, turn)], endpoint.num_connections

    assert trial.run(play, script) == (["one", "two", ""], 3)


def test_closing_ends_what_is_in_use(trial):
    async def script(seen):
        seen.start_stream()
        seen.say("one")
        await seen.writer.drain()
        await asyncio.sleep(30)

    async def play(backend, endpoint):
        job = trial.job("drafter")
        pieces = backend.sample(trial.exchange(job).begin()[0], job)
        await anext(pieces)
        waiting = asyncio.ensure_future(anext(pieces))
        await asyncio.sleep(0.01)
        await backend.close()
        with pytest.raises(EndpointError, match="broke off in the middle of its answer"):
            await waiting
        await asyncio.wait_for(endpoint.gone.wait(), 1.0)

    trial.run(play, trial.waits(script))
