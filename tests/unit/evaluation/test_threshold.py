from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.config import EvaluationSettings
from agon.evaluation.threshold import Outcome, best_threshold, choose_threshold
from agon.match.lineups import lineup_for
from agon.match.play import Sampling
from agon.records import Problem

R, W = True, False


def test_the_threshold_challenges_where_that_helps_and_nowhere_else():
    # Below -1: two drafts wrong, both challenges right. At -0.5: a right draft that its challenge loses.
    outcomes = [
        Outcome(-2.0, W, R),
        Outcome(-1.5, W, R),
        Outcome(-0.5, R, W),
        Outcome(-0.1, R, R),
    ]
    # right of 4 with nothing, -2, -2 and -1.5, all but -0.1, all challenged: 2, 3, 4, 3, 3
    assert best_threshold(outcomes) == (-0.5, 1.0, 0.5)


def test_of_thresholds_as_good_the_lowest_challenges_least():
    outcomes = [Outcome(-2.0, W, R), Outcome(-1.0, R, R), Outcome(-0.5, W, W)]
    # right with nothing challenged 1, then 2 whatever else is: the first that reaches 2
    assert best_threshold(outcomes) == (-1.0, pytest.approx(2 / 3), pytest.approx(1 / 3))


def test_challenges_that_never_help_are_never_asked_for():
    assert best_threshold([Outcome(-2.0, R, W), Outcome(-1.0, W, W)]) == (-2.0, 0.5, 0.0)


def test_challenges_that_always_help_are_always_asked_for():
    assert best_threshold([Outcome(-2.0, W, R), Outcome(0.0, W, R)]) == (math.inf, 1.0, 1.0)


def test_drafts_as_sure_are_challenged_together_or_not_at_all():
    outcomes = [Outcome(0.5, W, R), Outcome(0.5, R, W), Outcome(0.5, R, W), Outcome(1.0, R, W)]
    # 3 of 4 with nothing; 2 of 4 with the three at 0.5
    assert best_threshold(outcomes) == (0.5, 0.75, 0.0)


def test_drafts_without_an_answer_can_be_challenged_alone():
    outcomes = [Outcome(-math.inf, W, R), Outcome(-3.0, R, W)]
    assert best_threshold(outcomes) == (-3.0, 1.0, 0.5)
    # and where even that does not help, nothing is below minus infinity
    assert best_threshold([Outcome(-math.inf, W, W), Outcome(-3.0, R, W)]) == (-math.inf, 0.5, 0.0)


def test_without_outcomes_there_is_no_threshold():
    with pytest.raises(ValueError, match="without outcomes"):
        best_threshold([])


OUTCOMES = st.builds(Outcome, st.integers(-5, 0).map(float), st.booleans(), st.booleans())


@given(st.lists(OUTCOMES, min_size=1, max_size=20), st.randoms())
def test_the_threshold_is_the_best_of_all_by_trying_each(outcomes, random):
    def accuracy(threshold):
        right = [one.is_challenge_right if one.confidence < threshold else one.is_draft_right for one in outcomes]
        return sum(right) / len(right)

    def challenged(threshold):
        return sum(one.confidence < threshold for one in outcomes) / len(outcomes)

    best = best_threshold(outcomes)
    # thresholds between and beyond all confidences
    tried = [number / 2 for number in range(-12, 4)]
    assert best.accuracy == max(map(accuracy, tried)) == accuracy(best.value)
    assert best.challenged_share == challenged(best.value)
    assert all(accuracy(one) < best.accuracy for one in tried if challenged(one) < best.challenged_share)
    random.shuffle(outcomes)
    assert best_threshold(outcomes) == best


def test_the_choice_plays_the_full_cascade_and_says_what_it_saw(make_session):
    # Problem n is drafted with likelihood -n/8, right if n is even; every challenge is right but that of problem 0.
    problems = [Problem(id=f"p{n}", question=f"q{n}", gold="1", task="t", verifier="exact") for n in range(4)]

    def number(prompt):
        return int(prompt[1])

    def says(prompt, request):
        is_right = number(prompt) > 0 if "|" in prompt else number(prompt) % 2 == 0
        return f"tried<answer>{1 if is_right else 7}</answer>"

    session, engine = make_session(says, logprob=lambda request: -(request.prompt_ids[1] - ord("0")) / 8)
    best, note = choose_threshold(
        session,
        problems,
        lineup_for("selective", threshold=-99.0),
        task="t",
        settings=EvaluationSettings(),
        sampling=Sampling(max_draft_tokens=60, max_challenge_tokens=60, max_summary_tokens=50),
    )
    assert len(engine.requests) == 8
    # right of 4: nothing challenged 2; below -2/8 (problem 3) 3; below -1/8 (3, 2) 3; below 0 (3, 2, 1) 4; all 3
    assert best == (0.0, 1.0, 0.75)
    assert note == (
        "threshold 0 of likelihood chosen on 4 development problems: accuracy 1.000 there with 75% challenged "
        "(never 0.500, always 0.750)"
    )
