"""Turns sampled by endpoints that answer, stall and break off."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing

import httpx
import pytest

from agon.serve.backend import EndpointError
from agon.serve.cascade import play_job
from agon.serve.endpoints import endpoint_of
from agon.serve.records import MatchEnded, Message
from agon.serve.remote.backend import RemoteBackend


def test_a_draft_is_asked_for_with_all_that_was_set_and_comes_in_pieces(trial):
    before = (Message("system", "Be brief."), Message("user", "Hi"), Message("assistant", "Hello"))
    job = trial.job(before=before)
    turn = trial.exchange(job).begin()[0]
    pieces, endpoint = trial.drafted(lambda seen: seen.answer("It is ", "\\boxed{42}."), job=job)
    assert "".join(piece.text for piece in pieces) == "It is \\boxed{42}."
    assert [piece.ended is None for piece in pieces] == [True] * (len(pieces) - 1) + [False]
    ended = pieces[-1].ended
    assert (ended.completion.text, ended.completion.stop_reason) == ("It is \\boxed{42}.", "stop")
    assert (ended.num_prompt_tokens, ended.num_completion_tokens, ended.is_estimated) == (11, 5, False)
    assert ended.completion.adapter == "A"
    assert endpoint.chats == [
        {
            "model": "m",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "Hello"},
                {"role": "user", "content": turn.prompt.text},
            ],
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": 100,
            "temperature": 0.7,
            "top_p": 0.9,
            "seed": turn.request.seed % 2**31,
        }
    ]
    assert "What is 6 times 7?" in turn.prompt.text


def test_without_a_wish_for_text_there_is_one_piece(trial):
    pieces, _ = trial.drafted(lambda seen: seen.answer("a", "b", "c"), job=trial.job(wants_text=False))
    assert [(piece.text, piece.ended.completion.text) for piece in pieces] == [("abc", "abc")]


def test_the_challenger_is_asked_at_its_own_endpoint_and_reads_the_summary_alone(trial):
    async def play(backend, drafter, challenger):
        job = trial.job(stop=("END",), before=(Message("system", "Be brief."),))
        match = trial.exchange(job)
        (draft,) = match.begin()
        pieces = await trial.sample(backend, job, draft)
        (challenge,) = match.end(0, pieces[-1].ended.completion)
        answer = await trial.sample(backend, job, challenge)
        return drafter.chats, challenger.chats, answer[-1].ended.completion

    drafts, challenges, answer = trial.run(
        play,
        lambda seen: seen.answer("<think>41 or 42</think>Six sevens are added.\n\nThe answer is \\boxed{42}."),
        lambda seen: seen.answer("\\boxed{42}"),
    )
    assert answer.adapter == "B"
    assert [message["role"] for message in challenges[0]["messages"]] == ["system", "user"]
    asked = challenges[0]["messages"][-1]["content"]
    assert "Six sevens are added." in asked
    assert "42" not in asked
    assert "41" not in asked
    assert (drafts[0]["max_tokens"], challenges[0]["max_tokens"]) == (100, 200)
    assert ("stop" in drafts[0], challenges[0]["stop"]) == (False, ["END"])


def test_each_model_alone_asks_its_endpoint_and_passes_stop_strings_on(trial):
    async def play(backend, drafter, challenger):
        for model in ("drafter", "challenger", "challenger"):
            await trial.sample(backend, trial.job(model, stop=("END",)))
        return drafter.chats, challenger.chats

    drafts, challenges = trial.run(play, lambda seen: seen.answer("a"), lambda seen: seen.answer("b"))
    assert [body["stop"] for body in drafts + challenges] == [["END"]] * 3
    assert (len(drafts), len(challenges)) == (1, 2)


def test_reasoning_stands_before_the_content(trial):
    def script(seen):
        seen.start_stream()
        seen.event({"choices": [{"delta": {"reasoning_content": "Is it 42?"}}]})
        seen.say("It is.", "stop")
        seen.end_stream()

    pieces, _ = trial.drafted(script)
    assert pieces[-1].ended.completion.text == "<think>Is it 42?</think>It is."
    assert "".join(piece.text for piece in pieces) == "<think>Is it 42?</think>It is."


def test_a_draft_that_hit_its_cap_is_truncated(trial):
    pieces, _ = trial.drafted(lambda seen: seen.answer("It is", reason="length"))
    assert pieces[-1].ended.completion.is_truncated


def test_tokens_that_the_endpoint_does_not_count_are_estimated_and_marked(trial):
    job = trial.job(before=(Message("system", "Be brief."),))
    turn = trial.exchange(job).begin()[0]
    pieces, _ = trial.drafted(lambda seen: seen.answer("It is 42", usage=None), job=job)
    ended = pieces[-1].ended
    # "It", "is", "42"; of the prompt: "Be", "brief", "." and the turn.
    assert (ended.num_completion_tokens, ended.is_estimated) == (3, True)
    assert ended.num_prompt_tokens > 3 + len(turn.prompt.text.split())


def test_no_completion_tokens_for_a_text_are_no_count(trial):
    pieces, _ = trial.drafted(lambda seen: seen.answer("It is 42", usage=(9, 0)))
    assert (pieces[-1].ended.num_completion_tokens, pieces[-1].ended.is_estimated) == (3, True)


def test_an_empty_completion_is_a_completion(trial):
    pieces, _ = trial.drafted(lambda seen: seen.answer(usage=(9, 0)))
    ended = pieces[-1].ended
    assert (ended.completion.text, ended.num_completion_tokens, ended.is_estimated) == ("", 0, False)


def test_a_connection_is_used_again(trial):
    async def play(backend, endpoint):
        for _ in range(3):
            await trial.sample(backend, trial.job("drafter"))
        return endpoint

    # Both places are at one endpoint: one connection each for the start, and no more.
    assert trial.run(play, lambda seen: seen.answer("a")).num_connections == 2


def test_an_end_without_done_is_an_end(trial):
    def script(seen):
        seen.start_stream()
        seen.say("all of it", "stop")
        seen.writer.write(b"0\r\n\r\n")

    pieces, _ = trial.drafted(script)
    assert pieces[-1].ended.completion.text == "all of it"


def partly(*rest):
    def script(seen):
        seen.start_stream()
        seen.say("It is")
        for step in rest:
            step(seen)

    return script


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (partly(lambda seen: seen.writer.close()), "broke off in the middle of its answer"),
        (partly(lambda seen: seen.writer.transport.abort()), "broke off in the middle of its answer"),
        (partly(lambda seen: seen.writer.write(b"garbage\r\n")), "broke off in the middle of its answer"),
        (partly(lambda seen: seen.event({"error": {"message": "OOM"}})), "broke off with an error: OOM"),
        (partly(lambda seen: seen.event("no json")), "sent an event that is no JSON"),
        (partly(lambda seen: seen.event("[7]")), "sent an event that is no JSON object"),
        (partly(lambda seen: seen.end_stream()), "ended its stream before the completion was finished"),
        (
            partly(lambda seen: seen.writer.write(b"0\r\n\r\n")),
            "ended its stream before the completion was finished",
        ),
        (
            partly(lambda seen: seen.say("", "content_filter")),
            "ended the completion with 'content_filter', not with stop or length",
        ),
        (partly(lambda seen: seen.event("x" * 2_000_000)), "sent an event of more than 1048576 bytes"),
    ],
)
def test_a_stream_that_breaks_is_an_error_and_is_not_asked_for_again(trial, script, says):
    error, endpoint = trial.refused(script)
    assert str(error) == f"the drafter's endpoint {says}"
    assert (error.status, len(endpoint.chats)) == (502, 1)


def test_a_stream_without_choices_is_no_answer(trial):
    def script(seen):
        seen.start_stream()
        seen.event({"choices": []})
        seen.end_stream()

    assert "before the completion was finished" in str(trial.refused(script)[0])


@pytest.mark.parametrize(
    "steps",
    [(), (lambda seen: seen.start_stream(),), (lambda seen: seen.start_stream(), lambda seen: seen.say("It is"))],
)
def test_an_endpoint_that_says_nothing_more_is_an_error(trial, steps):
    async def script(seen):
        for step in steps:
            step(seen)
        await seen.writer.drain()
        await asyncio.sleep(30)

    error, endpoint = trial.refused(trial.waits(script), timeout=httpx.Timeout(5.0, read=0.1))
    says = "went silent in the middle of its answer" if steps else "did not answer in time"
    assert (str(error), error.status) == (f"the drafter's endpoint {says}", 502 if steps else 504)
    assert len(endpoint.chats) == 1


@pytest.mark.parametrize("num_words", [0, 1, 3])
def test_closing_the_generator_closes_the_connection_at_once(trial, num_words):
    async def script(seen):
        seen.start_stream()
        for number in range(num_words):
            seen.say(f"word{number} ")
            await seen.writer.drain()
            await asyncio.sleep(0.01)
        await asyncio.sleep(30)

    async def play(backend, endpoint):
        job = trial.job()
        pieces = backend.sample(trial.exchange(job).begin()[0], job)
        for _ in range(num_words):
            await anext(pieces)
        if num_words:
            await pieces.aclose()
        else:
            waiting = asyncio.ensure_future(anext(pieces))
            while not endpoint.chats:
                await asyncio.sleep(0.001)
            waiting.cancel()
        await asyncio.wait_for(endpoint.gone.wait(), 1.0)

    trial.run(play, trial.waits(script))


def test_cancelling_before_the_first_byte_closes_the_connection(trial):
    async def play(backend, endpoint):
        waiting = asyncio.create_task(trial.sample(backend, trial.job()))
        while not endpoint.chats:
            await asyncio.sleep(0.001)
        waiting.cancel()
        await asyncio.wait_for(endpoint.gone.wait(), 1.0)

    trial.run(play, trial.waits(lambda seen: asyncio.sleep(30)))


def test_cancelling_while_a_busy_endpoint_is_waited_for_ends_at_once(trial):
    async def play(backend, endpoint):
        waiting = asyncio.create_task(trial.sample(backend, trial.job()))
        while not endpoint.chats:
            await asyncio.sleep(0.001)
        began = time.perf_counter()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return time.perf_counter() - began

    assert trial.run(play, lambda seen: seen.refuse(429, "later", "Retry-After: 15")) < 1.0


def test_many_turns_at_once_get_their_own_answers(trial):
    async def script(seen):
        await asyncio.sleep(seen.body["seed"] % 7 / 500)
        seen.answer(f"for seed {seen.body['seed']}")

    async def play(backend, endpoint):
        turns = trial.exchange(trial.job(samples=50)).begin()
        done = await asyncio.gather(*(trial.sample(backend, trial.job(), turn) for turn in turns))
        return [
            (turn.request.seed % 2**31, pieces[-1].ended.completion.text)
            for turn, pieces in zip(turns, done, strict=True)
        ]

    answers = trial.run(play, script)
    assert len({seed for seed, _ in answers}) == 50
    assert all(text == f"for seed {seed}" for seed, text in answers)


def test_half_a_surrogate_pair_in_a_problem_can_be_asked(trial):
    pieces, endpoint = trial.drafted(lambda seen: seen.answer("x"), job=trial.job(before=(Message("user", "a\ud83d"),)))
    assert endpoint.chats[0]["messages"][0]["content"] == "a\ud83d"
    assert pieces[-1].ended.is_estimated is False


def test_it_is_always_alive_and_knows_no_context():
    backend = RemoteBackend(
        *(endpoint_of(name, "http://127.0.0.1:1", environ={}) for name in ("drafter", "challenger"))
    )
    assert backend.context_length is None
    assert backend.check_alive() is None


def test_an_endpoint_that_takes_no_stop_strings_is_cut_here_and_its_tokens_are_estimated(trial):
    def script(seen):
        if "stop" in seen.body:
            seen.refuse(400, "stop is not supported")
        else:
            seen.answer("four words and a END of more")

    async def play(backend, endpoint):
        async with aclosing(play_job(backend, trial.job("drafter", stop=("END",)), None)) as events:
            return [event async for event in events]

    *_, ended, finished = trial.run(play, script)
    assert finished.match.final.completion.text == "four words and a "
    assert ended.ended.is_estimated
    # "four", "words", "and", "a", "END" and what came with it.
    assert 5 <= ended.ended.num_completion_tokens <= 7
    assert ended.ended.num_prompt_tokens > 20


@pytest.mark.parametrize(("model", "roles"), [("cascade", "AB"), ("cascade-b-a", "BA")])
def test_a_match_of_two_endpoints_is_played_in_both_directions(trial, model, roles):
    async def play(backend, drafter, challenger):
        async with aclosing(play_job(backend, trial.job(model, samples=3), None)) as events:
            return [event.match async for event in events if isinstance(event, MatchEnded)]

    matches = trial.run(
        play,
        lambda seen: seen.answer("By drafting. \\boxed{41}"),
        lambda seen: seen.answer("By challenging. \\boxed{42}"),
    )
    assert sorted(match.sample for match in matches) == [0, 1, 2]
    for match in matches:
        assert [attempt.adapter for attempt in match.attempts] == list(roles)
        assert match.final.verdict.answer == {"AB": "42", "BA": "41"}[roles]
        assert match.summaries[0].text == {"AB": "By drafting. [withheld]", "BA": "By challenging. [withheld]"}[roles]
        assert len({attempt.prompt.text for attempt in match.attempts}) == 2


def test_a_failing_challenger_fails_the_match_and_gives_the_others_up(trial):
    async def play(backend, drafter, challenger):
        async with aclosing(play_job(backend, trial.job(samples=4), None)) as events:
            async for _ in events:
                pass

    with pytest.raises(EndpointError, match=r"^the challenger's endpoint failed \(500\): boom$"):
        trial.run(play, lambda seen: seen.answer("\\boxed{41}"), lambda seen: seen.refuse(500, "boom"))
