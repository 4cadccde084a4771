from __future__ import annotations

import pytest

from agon.evaluation.conditional import blind_second_rate, rate_intervals
from agon.records import Attempt, Completion, Match, Problem, Prompt, Verdict

PROBLEM = Problem(id="p", question="q", gold="2", task="t", verifier="exact")


def _attempt(role, outcome):
    return Attempt(
        role, "A", Prompt((1,), "q"), Completion((1,), (-0.1,), "x", "stop", "A", 0), Verdict(outcome, 0.0), 1.0
    )


def _match(draft, challenge=None):
    stage = None if challenge is None else _attempt("challenger", challenge)
    return Match(PROBLEM, 0, (_attempt("drafter", draft),), (), stage)


def _table(*pairs):
    return [[_match(*pair)] for pair in pairs]


PLAYED = _table(
    ("wrong", "correct"), ("wrong", "wrong"), ("correct", "wrong"), ("correct", "correct"), ("truncated", "wrong")
)
BLIND = _table(("correct",), ("wrong",), ("wrong",), ("correct",), ("correct",))


def test_the_blind_second_pass_counts_where_the_draft_was_wrong():
    # drafts 1, 2 and 5 were not right; blind passes there: right, wrong, right
    assert blind_second_rate(PLAYED, BLIND) == pytest.approx(2 / 3)


def test_a_failed_check_is_counted_in_neither():
    played = [*PLAYED, *_table(("error", "correct"))]
    blind = [*BLIND, *_table(("correct",))]
    assert blind_second_rate(played, blind) == pytest.approx(2 / 3)


def test_nothing_to_count_is_none():
    assert blind_second_rate(_table(("correct", "correct")), _table(("wrong",))) is None


def test_intervals_are_exact_and_carry_their_n():
    intervals = rate_intervals(PLAYED, BLIND, seed=0)
    assert {name: (row["n"], row["kind"]) for name, row in intervals.items()} == {
        "conversion": (3, "clopper-pearson"),
        "regression": (2, "clopper-pearson"),
        "blind_second": (3, "clopper-pearson"),
    }
    # 1 of 3: the exact interval's ends, from scipy.stats.binomtest(1, 3).proportion_ci()
    assert intervals["conversion"]["low"] == pytest.approx(0.0084, abs=5e-5)
    assert intervals["conversion"]["high"] == pytest.approx(0.9057, abs=5e-5)


def test_several_samples_of_a_problem_are_one_cluster():
    two = [
        [_match("wrong", "correct"), _match("wrong", "wrong")],
        [_match("wrong", "wrong"), _match("correct", "correct")],
    ]
    assert rate_intervals(two, None, seed=0)["conversion"]["kind"] == "cluster-bootstrap"
    assert rate_intervals(two, None, seed=0)["conversion"]["n"] == 3
