from __future__ import annotations

import pytest

from agon.evaluation.conditional import blind_second_rate, rate_intervals, where_wrong
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


def _of(table, numbers):
    return [table[number] for number in numbers]


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
    numbers = where_wrong(PLAYED)
    assert numbers == [0, 1, 4]
    intervals = rate_intervals(PLAYED, _of(PLAYED, numbers), _of(BLIND, numbers), seed=0)
    assert intervals == rate_intervals(PLAYED, PLAYED, BLIND, seed=0)
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
    intervals = rate_intervals(two, two, two, seed=0)
    assert intervals["conversion"]["kind"] == "cluster-bootstrap"
    assert intervals["conversion"]["n"] == 3


def test_a_draft_that_nobody_challenged_is_counted_in_no_rate():
    # a wrong and a right draft without a challenge beside a converted and a kept one
    played = _table(("wrong",), ("correct",), ("wrong", "correct"), ("correct", "correct"))
    blind = _table(("correct",), ("correct",), ("wrong",), ("correct",))
    assert where_wrong(played) == [2]
    assert blind_second_rate(played, blind) == 0.0
    counts = {name: row["n"] for name, row in rate_intervals(played, played, blind, seed=0).items()}
    assert counts == {"conversion": 1, "regression": 1, "blind_second": 1}
