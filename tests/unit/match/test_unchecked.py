from __future__ import annotations

from dataclasses import replace

from agon.match.lineups import lineup_for
from agon.match.play import Sampling, play
from agon.match.unchecked import NOT_CHECKED, Unchecked, unchecked_verdict
from agon.records import Completion, Problem

SAMPLING = Sampling(max_draft_tokens=60, max_challenge_tokens=60, max_summary_tokens=50)


def test_an_unchecked_answer_is_read_and_neither_right_nor_wrong():
    completion = Completion((1,), (-0.5,), "<think>x</think>so<answer> 7 </answer>", "stop", "A", 0)
    verdict = unchecked_verdict(completion, "tags")
    assert (verdict.answer, verdict.outcome, verdict.reason) == ("7", "unparsed", NOT_CHECKED)
    assert not verdict.is_correct


def test_a_match_is_played_where_nobody_knows_the_right_answer(make_session):
    session, _ = make_session(lambda prompt, request: "<think>x</think>so<answer>7</answer>")
    problem = Problem(id="p", question="1+1", gold="", task="t", verifier="exact")
    session = replace(session, verifiers=Unchecked())
    ((match,),) = play(
        session, [problem], lineup_for("cascade"), samples=1, sampling=SAMPLING, seed=0, stream=("solve",)
    )
    assert [attempt.verdict.reason for attempt in match.attempts] == [NOT_CHECKED, NOT_CHECKED]
    assert match.final.verdict.answer == "7"
