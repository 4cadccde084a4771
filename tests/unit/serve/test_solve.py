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
    match = solve(service, job_of(service.offer, "1+1", gold="2", seed=3), told.append)
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
    solved = solved_json(match)
    assert (solved["answer"], solved["verdict"], solved["drafter"]["adapter"]) == ("2", "correct", "A")
    assert solved["summary"] == "path[withheld]"
    assert solved["challenger"]["text"] == "<think>hm</think>mine<answer>2</answer>"


def test_without_a_right_answer_there_is_no_verdict(make_service):
    service = make_service(_tagged)
    job = job_of(service.offer, "1+1", gold=None, seed=0)
    assert solved_json(solve(service, job))["verdict"] is None


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
