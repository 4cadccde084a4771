from __future__ import annotations

import pytest

from agon.errors import DataError, EngineError
from agon.serve.records import Crossed, MatchEnded, StageBegan, StageEnded, StageGrew
from agon.serve.solve import job_of, solve, solved_json


def _tagged(turn):
    summary, answer = ("mine", "2") if "|" in turn.prompt.text else ("path", "7")
    return f"<think>hm</think>{summary}<answer>{answer}</answer>"


def test_a_problem_is_played_as_the_service_would_and_told_of_in_order(make_service):
    told = []
    service = make_service(_tagged)
    job = job_of(service.offer, "1+1", gold="2", seed=3)
    match = solve(service, job, told.append)
    assert [type(event) for event in told] == [
        StageBegan,
        StageGrew,
        StageEnded,
        Crossed,
        StageBegan,
        StageGrew,
        StageEnded,
        MatchEnded,
    ]
    assert told[-1].match == match
    solved = solved_json(match, job)
    assert (solved["direction"], solved["seed"]) == ("a-b", 3)
    assert (solved["answer"], solved["verdict"], solved["drafter"]["adapter"]) == ("2", "correct", "A")
    assert (solved["summary"], solved["summary_is_empty"]) == ("path[withheld]", False)
    assert (solved["drafter"]["is_truncated"], solved["challenger"]["is_truncated"]) == (False, False)
    assert solved["challenger"]["text"] == "<think>hm</think>mine<answer>2</answer>"


def test_without_a_right_answer_there_is_no_verdict(make_service):
    service = make_service(_tagged)
    job = job_of(service.offer, "1+1", gold=None, seed=0)
    assert solved_json(solve(service, job), job)["verdict"] is None


def test_a_draft_that_leaves_nothing_is_told_apart_from_one_whose_words_are_the_stand_in(make_service):
    service = make_service(lambda turn: "<think>hm</think><answer>7</answer>")
    job = job_of(service.offer, "1+1", gold=None, seed=0)
    assert solved_json(solve(service, job), job)["summary_is_empty"] is True


def test_what_fails_is_raised_and_the_backend_is_closed(make_service):
    def broken(turn):
        raise EngineError("the engine is out of memory")

    service = make_service(broken)
    closed = []
    service.backend.close = _noting(closed)
    with pytest.raises(EngineError, match="out of memory"):
        solve(service, job_of(service.offer, "1+1", gold=None, seed=0))
    assert closed == [True]


def test_an_empty_problem_is_refused(make_service):
    with pytest.raises(DataError, match="the problem is empty"):
        job_of(make_service(_tagged).offer, "  ", gold=None, seed=0)


def _noting(closed):
    async def close():
        closed.append(True)

    return close
