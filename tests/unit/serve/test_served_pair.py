"""A pair on the embedded base behind the server's engine thread: what it serves is what `play` plays."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from agon.config import Settings
from agon.match.asking import Sampling
from agon.match.lineups import lineup_for
from agon.match.play import play
from agon.match.session import open_session
from agon.rollout.text import TextReader
from agon.rollout.torch_stepping import TorchSteppingEngine
from agon.serve.cascade import play_job
from agon.serve.engine import EngineBackend
from agon.serve.records import Job, MatchEnded, StageEnded, StageGrew
from agon.tasks.typed import typed_problem

SAMPLING = Sampling(max_draft_tokens=44, max_challenge_tokens=44, max_summary_tokens=40)


@pytest.fixture(scope="module")
def session():
    settings = Settings.model_validate(
        {
            "model": {"base": "quickstart"},
            "adapter": {"rank": 4, "alpha": 8.0, "init": "noise"},
            "task": {"name": "countdown-lite", "answer_style": "tags", "wording": "symbols-v1"},
        }
    )
    problem, _ = typed_problem(settings.task, "12 7 5 = 24", None)
    with open_session(settings, problems=[problem]) as opened:
        yield opened, problem


def _jobs(session, problem, protocol, *, adapter="A", **fields):
    for seed in range(2):
        yield Job(
            problem=problem,
            can_check=True,
            lineup=lineup_for(protocol, adapter=adapter),
            sampling=SAMPLING,
            prompts=session.prompts,
            summarizer=session.summarizer,
            style=session.style,
            samples=2,
            seed=seed,
            **fields,
        )


def _serve(session, jobs, *, pause_s=0.0):
    """Play the jobs side by side, and return their events."""
    backend = EngineBackend(
        TorchSteppingEngine(session.pair), TextReader(session.tokenizer), pause_s=pause_s, pause_for_each_s=0.0
    )

    async def check(problem, completion, style):
        return session.verifiers.verify([(problem, completion)], style)[0]

    async def one(job):
        async with aclosing(play_job(backend, job, check)) as events:
            return [event async for event in events]

    async def run():
        await backend.start()
        try:
            return await asyncio.gather(*(one(job) for job in jobs))
        finally:
            await backend.close()

    return asyncio.run(run())


def _matches(events):
    return [event.match for event in sorted((e for e in events if isinstance(e, MatchEnded)), key=lambda e: e.sample)]


@pytest.mark.parametrize(
    ("protocol", "adapter", "wants_text"),
    [
        ("cascade", "A", True),
        ("cascade", "A", False),
        ("single", "A", True),
        # One draft of each adapter, and two of one.
        ("likeliest", None, True),
        ("likeliest", None, False),
        ("likeliest", "A", True),
    ],
)
def test_a_seed_gets_the_tokens_that_play_gives_it(session, protocol, adapter, wants_text):
    opened, problem = session
    jobs = list(_jobs(opened, problem, protocol, adapter=adapter, wants_text=wants_text))
    for job, events in zip(jobs, _serve(opened, jobs), strict=True):
        (expected,) = play(
            opened, [problem], job.lineup, samples=2, sampling=SAMPLING, seed=job.seed, stream=("solve",)
        )
        served = _matches(events)
        assert [[attempt.completion.token_ids for attempt in match.attempts] for match in served] == [
            [attempt.completion.token_ids for attempt in match.attempts] for match in expected
        ]
        for one, other in zip(served, expected, strict=True):
            assert (one.summaries, one.chosen) == (other.summaries, other.chosen)
            for attempt, wanted in zip(one.attempts, other.attempts, strict=True):
                assert (attempt.prompt, attempt.verdict) == (wanted.prompt, wanted.verdict)
                assert attempt.completion.text == wanted.completion.text
                assert attempt.completion.logprobs == pytest.approx(wanted.completion.logprobs, abs=1e-4)


def test_the_texts_that_grow_are_those_of_the_stages(session):
    opened, problem = session
    for events in _serve(opened, _jobs(opened, problem, "cascade")):
        for match in _matches(events):
            for role, attempt in (("drafter", match.draft), ("challenger", match.challenge)):
                grown = [
                    event
                    for event in events
                    if isinstance(event, StageGrew) and (event.sample, event.role) == (match.sample, role)
                ]
                assert len(grown) > 2
                assert "".join(event.text for event in grown) == attempt.completion.text
                assert sum((event.token_ids for event in grown), ()) == attempt.completion.token_ids
                assert sum((event.logprobs for event in grown), ()) == attempt.completion.logprobs


def test_a_stop_string_cuts_text_and_tokens_at_the_same_place(session):
    opened, problem = session
    tokenizer, reader = opened.tokenizer, TextReader(opened.tokenizer)
    whole = [_matches(events) for events in _serve(opened, _jobs(opened, problem, "cascade"))]
    for pause_s in (0.0, 60.0):
        cut = _serve(opened, _jobs(opened, problem, "cascade", stop=("</think>",)), pause_s=pause_s)
        for matches, events in zip(whole, cut, strict=True):
            for match, stopped in zip(matches, _matches(events), strict=True):
                assert stopped.draft.completion.token_ids == match.draft.completion.token_ids
                completion = match.final.completion
                text, found, _ = completion.text.partition("</think>")
                final = stopped.final.completion
                assert final.text == text
                if not found:
                    assert final.token_ids == completion.token_ids
                    continue
                tag = completion.token_ids.index(tokenizer.convert_tokens_to_ids("</think>"))
                # A space before the tag belongs to the tag's token, and to the text.
                assert final.token_ids == completion.token_ids[: tag + text.endswith(" ")]
                assert final.text.startswith(reader.read(final.token_ids[:tag], has_stop=False))
                (ended,) = [
                    event.ended
                    for event in events
                    if isinstance(event, StageEnded) and (event.sample, event.is_final) == (match.sample, True)
                ]
                assert ended.completion == final
                assert tag < ended.num_completion_tokens <= completion.num_tokens
    assert any("</think>" in match.final.completion.text for matches in whole for match in matches)
