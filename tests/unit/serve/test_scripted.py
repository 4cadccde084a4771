from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from agon.errors import EngineError
from agon.match.exchange import Turn
from agon.records import Problem, Prompt, Request
from agon.serve.scripted import ScriptedBackend

PROBLEM = Problem(id="p", question="q", gold="", task="t", verifier="exact")


def _turn(max_tokens=20, adapter="A"):
    return Turn("drafter", 0, PROBLEM, Prompt((1, 2, 3), "abc"), Request((1, 2, 3), adapter, max_tokens, seed=0))


async def _all(backend, turn, job):
    async with aclosing(backend.sample(turn, job)) as pieces:
        return [piece async for piece in pieces]


def test_a_script_is_told_in_pieces_that_add_up(make_job):
    backend = ScriptedBackend(lambda turn: "abcdefg", num_pieces=3)
    pieces = asyncio.run(_all(backend, _turn(), make_job()))
    assert [piece.text for piece in pieces] == ["abc", "def", "g"]
    assert [piece.ended is None for piece in pieces] == [True, True, False]
    ended = pieces[-1].ended
    # One token a character, and the stop token, which is no text.
    assert sum((piece.token_ids for piece in pieces), ()) == ended.completion.token_ids == (*map(ord, "abcdefg"), 0)
    assert sum((piece.token_ends for piece in pieces), ()) == (1, 2, 3, 4, 5, 6, 7, 7)
    assert (ended.completion.text, ended.completion.stop_reason) == ("abcdefg", "stop")
    assert (ended.num_prompt_tokens, ended.num_completion_tokens) == (3, 8)


def test_without_a_wish_for_text_there_is_one_piece(make_job):
    backend = ScriptedBackend(lambda turn: "abcdefg", num_pieces=3)
    (piece,) = asyncio.run(_all(backend, _turn(), make_job(wants_text=False)))
    assert piece.text == piece.ended.completion.text == "abcdefg"


@pytest.mark.parametrize(
    ("script", "cap", "texts", "stop_reason"),
    [
        # 7 characters and the stop token are 8 tokens.
        ("abcdefg", 8, ["abcd", "efg"], "stop"),
        ("abcdefg", 7, ["abcd", "efg"], "length"),
        ("abcdefg", 5, ["abcd", "e"], "length"),
        ("abcdefg", 3, ["abc"], "length"),
        (["ab", "", "c"], 9, ["ab", "", "c"], "stop"),
        ("", 1, [""], "stop"),
        ([], 1, [""], "stop"),
    ],
)
def test_a_text_that_does_not_fit_is_cut(make_job, script, cap, texts, stop_reason):
    backend = ScriptedBackend(lambda turn: script, num_pieces=2)
    pieces = asyncio.run(_all(backend, _turn(cap), make_job()))
    completion = pieces[-1].ended.completion
    assert [piece.text for piece in pieces] == texts
    assert (completion.text, completion.stop_reason) == ("".join(texts), stop_reason)
    assert completion.num_tokens == len(completion.logprobs) == len(completion.text) + (stop_reason == "stop") <= cap


def test_an_error_among_the_pieces_is_raised_in_its_place(make_job):
    backend = ScriptedBackend(lambda turn: ["ab", EngineError("lost")])
    seen = []

    async def take():
        async with aclosing(backend.sample(_turn(), make_job())) as pieces:
            async for piece in pieces:
                seen.append(piece.text)

    with pytest.raises(EngineError, match="lost"):
        asyncio.run(take())
    assert seen == ["ab"]
    assert (backend.num_open, backend.num_ended, backend.num_given_up) == (0, 0, 1)


def test_seconds_are_those_of_the_whole_stage_and_turns_wait_side_by_side(make_job):
    backend = ScriptedBackend(lambda turn: "abcd", seconds=0.04, num_pieces=4)

    async def take():
        return await asyncio.gather(*(_all(backend, _turn(), make_job()) for _ in range(10)))

    taken = asyncio.run(take())
    assert all(0.035 < pieces[-1].ended.seconds < 2 for pieces in taken)
    assert (backend.most_open, backend.num_open, backend.num_ended) == (10, 0, 10)


def test_closing_the_generator_gives_the_turn_up(make_job):
    backend = ScriptedBackend(lambda turn: "abcd", seconds=lambda turn: 60.0)

    async def leave():
        task = asyncio.create_task(_all(backend, _turn(), make_job()))
        while backend.num_open < 1:
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(leave())
    assert (backend.num_open, backend.num_ended, backend.num_given_up) == (0, 0, 1)


def test_a_backend_that_fails_tells_every_open_turn_and_refuses_later_ones(make_job):
    backend = ScriptedBackend(lambda turn: "abcd", seconds=60.0)

    async def fail():
        tasks = [asyncio.create_task(_all(backend, _turn(), make_job())) for _ in range(2)]
        while backend.num_open < 2:
            await asyncio.sleep(0.001)
        backend.check_alive()
        backend.fail("the card is lost")
        return [
            *await asyncio.gather(*tasks, return_exceptions=True),
            *await asyncio.gather(_late(), return_exceptions=True),
        ]

    async def _late():
        return await _all(backend, _turn(), make_job())

    assert [str(error) for error in asyncio.run(fail())] == ["the card is lost"] * 3
    with pytest.raises(EngineError, match="card"):
        backend.check_alive()


def test_a_request_that_does_not_fit_is_refused(make_job):
    backend = ScriptedBackend(lambda turn: "abcd", context_length=10)
    with pytest.raises(EngineError, match="the context holds 10"):
        asyncio.run(_all(backend, _turn(max_tokens=8), make_job()))
    assert backend.num_open == 0
