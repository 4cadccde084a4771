from __future__ import annotations

import asyncio
import re
import threading
from contextlib import aclosing
from dataclasses import replace

import pytest

from agon.errors import ConfigError, EngineError
from agon.match.lineups import lineup_for
from agon.match.play import play
from agon.match.unchecked import NOT_CHECKED
from agon.records import Lineup, Verdict
from agon.serve.cascade import play_job
from agon.serve.records import Crossed, EndedStage, MatchEnded, Piece, StageBegan, StageEnded, StageGrew
from agon.serve.scripted import ScriptedBackend


def _say(turn):
    answer = "2" if turn.role == "challenger" else str(turn.request.seed % 3)
    return f"<think>hm</think>path{turn.request.seed % 1000}<answer>{answer}</answer>"


def _kinds(events, sample=0):
    kinds = [(type(event).__name__, getattr(event, "role", None)) for event in events if event.sample == sample]
    return [kind for i, kind in enumerate(kinds) if kind[0] != "StageGrew" or kinds[i - 1] != kind]


class EngineOfTurns:
    """A backend over an engine that samples one request at a time."""

    context_length = None

    def __init__(self, engine):
        self.engine = engine

    async def sample(self, turn, job):
        (completion,) = self.engine.generate([turn.request])
        yield Piece(
            completion.text,
            completion.token_ids,
            completion.logprobs,
            EndedStage(completion, len(turn.request.prompt_ids), completion.num_tokens, 0.0),
        )


def test_a_cascade_is_told_of_in_the_order_of_its_stages(make_job, check, collect):
    events = collect(ScriptedBackend(_say, num_pieces=4), make_job(), check)
    assert _kinds(events) == [
        ("StageBegan", "drafter"),
        ("StageGrew", "drafter"),
        ("StageEnded", "drafter"),
        ("Crossed", None),
        ("StageBegan", "challenger"),
        ("StageGrew", "challenger"),
        ("StageEnded", "challenger"),
        ("MatchEnded", None),
    ]
    assert [event.adapter for event in events if isinstance(event, StageBegan)] == ["A", "B"]
    (match,) = [event.match for event in events if isinstance(event, MatchEnded)]
    for role, attempt in (("drafter", match.draft), ("challenger", match.challenge)):
        grown = [event for event in events if isinstance(event, StageGrew) and event.role == role]
        assert len(grown) == 4
        assert "".join(event.text for event in grown) == attempt.completion.text
        assert sum((event.token_ids for event in grown), ()) == attempt.completion.token_ids
        assert {event.is_final for event in grown} == {role == "challenger"}
        (ended,) = [event for event in events if isinstance(event, StageEnded) and event.role == role]
        assert ended.ended.completion == attempt.completion
        assert ended.ended.num_prompt_tokens == len(attempt.prompt.token_ids)
    (crossed,) = [event for event in events if isinstance(event, Crossed)]
    assert crossed.summaries == match.summaries
    assert "path" in crossed.summaries[0].text
    assert match.challenge.prompt.text == f"1+1|{crossed.summaries[0].text}"
    assert match.final.is_correct


@pytest.mark.parametrize(
    "protocol",
    [
        "cascade",
        "single",
        "self-cascade",
        "moa",
        "majority",
        "likeliest",
        "blind-second",
        "empty-draft",
        "answer-visible",
        "selective",
    ],
)
def test_matches_are_those_that_play_returns_for_the_same_seed(make_session, make_job, check, collect, protocol):
    def script(prompt, request):
        answer = "2" if "|" in prompt else str(request.seed % 3)
        return f"<think>hm</think>path{request.seed % 1000}<answer>{answer}</answer>"

    def likelihood(request):
        return -0.01 - request.seed % 97 / 100

    lineup = lineup_for(protocol, **({"threshold": -0.5} if protocol == "selective" else {}))
    job = make_job(lineup=lineup, samples=4, seed=11)
    session, _ = make_session(script, logprob=likelihood)
    (expected,) = play(session, [job.problem], lineup, samples=4, sampling=job.sampling, seed=11, stream=("solve",))
    session, engine = make_session(script, logprob=likelihood)
    events = collect(EngineOfTurns(engine), job, check)
    finished = {event.sample: event.match for event in events if isinstance(event, MatchEnded)}
    assert [finished[sample] for sample in range(4)] == expected
    if protocol == "likeliest":
        assert {match.chosen for match in expected} == {0, 1}
    if protocol == "selective":
        assert {match.challenge is None for match in expected} == {True, False}


@pytest.mark.parametrize("reads", ["shared", "hidden"])
def test_readings_that_cross_matches_or_show_nothing_are_played_alike(make_session, make_job, check, collect, reads):
    lineup = Lineup(
        drafters=("A",), has_challenge=True, challenger="B", reads=reads, doubt="likelihood", threshold=-0.5
    )

    def script(prompt, request):
        return f"<think>hm</think>path{request.seed % 1000}<answer>2</answer>"

    def likelihood(request):
        return -0.1 if request.seed % 2 else -0.9

    job = make_job(lineup=lineup, samples=6, seed=3)
    session, _ = make_session(script, logprob=likelihood)
    (expected,) = play(session, [job.problem], lineup, samples=6, sampling=job.sampling, seed=3, stream=("solve",))
    session, engine = make_session(script, logprob=likelihood)
    events = collect(EngineOfTurns(engine), job, check)
    finished = {event.sample: event.match for event in events if isinstance(event, MatchEnded)}
    assert [finished[sample] for sample in range(6)] == expected
    assert {match.challenge is None for match in expected} == {True, False}
    assert any(isinstance(event, Crossed) for event in events) == (reads == "shared")


def test_a_match_is_over_while_the_draft_of_another_sample_is_still_sampled(make_job, check):
    backend = ScriptedBackend(_say, seconds=lambda turn: 60.0 if (turn.role, turn.place) == ("drafter", 1) else 0.0)

    async def first_over():
        events = []
        async with aclosing(play_job(backend, make_job(samples=2), check)) as played:
            async for event in played:
                events.append(event)
                if isinstance(event, MatchEnded):
                    return events

    events = asyncio.run(asyncio.wait_for(first_over(), 10))
    assert _kinds(events, 0)[-2:] == [("StageEnded", "challenger"), ("MatchEnded", None)]
    assert _kinds(events, 1) == [("StageBegan", "drafter")]
    assert events[-1].match.sample == 0


def test_without_a_wish_for_text_only_stages_are_told_of(make_job, check, collect):
    events = collect(ScriptedBackend(_say, num_pieces=4), make_job(wants_text=False), check)
    assert [type(event) for event in events] == [StageBegan, StageEnded, Crossed, StageBegan, StageEnded, MatchEnded]


def test_drafts_that_nobody_is_shown_are_not_told_of_as_they_grow(make_job, check, collect):
    events = collect(ScriptedBackend(_say, num_pieces=4), make_job(shows_drafts=False), check)
    assert [type(event) for event in events[:4]] == [StageBegan, StageEnded, Crossed, StageBegan]
    assert {event.is_final for event in events if isinstance(event, StageGrew)} == {True}


def test_nothing_is_checked_where_nobody_knows_the_right_answer(make_job, collect):
    async def check(problem, completion, style):
        raise AssertionError("nothing to check with")

    events = collect(ScriptedBackend(_say), make_job(can_check=False), check)
    match = events[-1].match
    assert [attempt.verdict.reason for attempt in match.attempts] == [NOT_CHECKED] * 2
    assert match.final.verdict.answer == "2"


def test_a_checker_that_fails_gives_a_verdict_and_no_exception(make_job, collect):
    async def check(problem, completion, style):
        raise OSError("no more processes")

    events = collect(ScriptedBackend(_say), make_job(), check)
    verdict = events[-1].match.final.verdict
    assert (verdict.outcome, verdict.reason, verdict.answer) == ("error", "OSError: no more processes", "2")


def test_a_draft_is_checked_while_its_challenge_is_sampled(make_job, collect):
    async def check(problem, completion, style):
        await asyncio.sleep(0.04)
        return Verdict("correct", 1.0)

    events = collect(ScriptedBackend(_say), make_job(), check)
    assert [type(event) for event in events[-2:]] == [StageEnded, MatchEnded]
    assert all(attempt.is_correct for attempt in events[-1].match.attempts)


# -- stop strings


@pytest.mark.parametrize("wants_text", [True, False])
@pytest.mark.parametrize("num_pieces", [1, 3, 60])
def test_a_stop_string_cuts_the_final_text_and_nothing_else(make_job, check, collect, num_pieces, wants_text):
    backend = ScriptedBackend(_say, num_pieces=num_pieces)
    job = make_job(stop=("<answer>", "never"), wants_text=wants_text)
    events = collect(backend, job, check)
    match = events[-1].match
    assert match.draft.completion.text.endswith("</answer>")
    final = match.final.completion
    assert re.fullmatch(r"<think>hm</think>path\d+", final.text)
    assert final.stop_reason == "stop"
    assert final.token_ids == tuple(map(ord, final.text))
    assert final.logprobs == (-0.5,) * len(final.text)
    assert match.final.verdict.outcome == "unparsed"
    told = "".join(event.text for event in events if isinstance(event, StageGrew) and event.is_final)
    assert told == (final.text if wants_text else "")
    ended = events[-2].ended
    assert ended.completion == final
    assert ended.num_completion_tokens > final.num_tokens


def test_a_turn_that_a_stop_string_ended_is_given_up(make_job, check, collect):
    backend = ScriptedBackend(lambda turn: ["ab", "END", EngineError("was not given up")], seconds=0.003)
    events = collect(backend, make_job("single", stop=("END",)), check)
    assert events[-1].match.final.completion.text == "ab"
    assert (backend.num_open, backend.num_given_up) == (0, 1)


def test_a_text_that_only_began_like_a_stop_string_is_told_to_its_end(make_job, check, collect):
    backend = ScriptedBackend(lambda turn: ["ab", "EN"])
    events = collect(backend, make_job("single", stop=("END",)), check)
    assert "".join(event.text for event in events if isinstance(event, StageGrew)) == "abEN"
    completion = events[-1].match.final.completion
    assert (completion.text, completion.token_ids) == ("abEN", (*map(ord, "abEN"), 0))


@pytest.mark.parametrize("protocol", ["majority", "likeliest", "selective", "blind-second"])
def test_stop_strings_are_refused_where_the_final_text_is_known_too_late(make_job, check, collect, protocol):
    with pytest.raises(ConfigError, match="leave them out"):
        collect(ScriptedBackend(_say), make_job(protocol, stop=("END",)), check)


# -- endings


@pytest.mark.parametrize("role", ["drafter", "challenger"])
def test_the_failure_of_one_turn_gives_the_others_up_and_is_raised(make_job, check, collect, role):
    def say(turn):
        return [EngineError("lost")] if (turn.role, turn.place) == (role, 1) else _say(turn)

    backend = ScriptedBackend(say, seconds=lambda turn: 0.0 if turn.place == 1 else 60.0)
    with pytest.raises(EngineError, match="lost"):
        collect(backend, make_job(samples=4), check)
    assert backend.num_open == 0
    assert backend.num_given_up == 4


@pytest.mark.parametrize("role", ["drafter", "challenger"])
def test_a_client_that_leaves_ends_everything_at_once(make_job, check, role):
    backend = ScriptedBackend(_say, seconds=lambda turn: 60.0 if turn.role == role else 0.0)

    async def leave():
        async def take():
            async with aclosing(play_job(backend, make_job(samples=3), check)) as events:
                async for _ in events:
                    pass

        task = asyncio.create_task(take())
        while backend.num_open < 3:
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.wait([task])
        assert backend.num_open == 0
        # Nothing of the job is left on the loop.
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(leave())
    assert backend.num_given_up == 3


def test_closing_between_two_events_ends_everything_at_once(make_job, check):
    backend = ScriptedBackend(_say, seconds=60.0)

    async def leave():
        async with aclosing(play_job(backend, make_job(samples=3), check)) as events:
            await anext(events)
            while backend.num_open < 3:
                await asyncio.sleep(0.001)
        assert backend.num_open == 0

    asyncio.run(leave())


def test_a_check_that_still_runs_does_not_hold_a_client_that_leaves(make_job):
    async def check(problem, completion, style):
        await asyncio.sleep(60)

    async def leave():
        async with aclosing(play_job(ScriptedBackend(_say), make_job(), check)) as events:
            async for event in events:
                if isinstance(event, StageEnded) and event.role == "challenger":
                    break

    asyncio.run(asyncio.wait_for(leave(), 5))


def test_a_turn_that_breaks_off_is_no_short_success(make_job, check, collect):
    class BreaksOff(ScriptedBackend):
        async def sample(self, turn, job):
            yield Piece("so f")

    with pytest.raises(EngineError, match="without its completion"):
        collect(BreaksOff(_say), make_job(), check)


def test_a_turn_cancelled_by_what_samples_it_does_not_hang_the_job(make_job, check, collect):
    class Cancels(ScriptedBackend):
        async def sample(self, turn, job):
            raise asyncio.CancelledError
            yield

    with pytest.raises(EngineError, match="given up by what samples it"):
        collect(Cancels(_say), make_job(), check)


def test_a_long_text_is_summarised_off_the_event_loop(make_job, check, collect):
    job = make_job()
    main, threads = threading.current_thread(), []

    class Noting:
        def summarize(self, *args, **options):
            threads.append(threading.current_thread())
            return job.summarizer.summarize(*args, **options)

    sampling = replace(job.sampling, max_draft_tokens=1_000)
    for length in (10, 600):
        backend = ScriptedBackend(lambda turn, length=length: "x" * length if turn.role == "drafter" else "y")
        collect(backend, replace(job, summarizer=Noting(), sampling=sampling), check)
    assert threads[0] is main
    assert threads[1] is not main
