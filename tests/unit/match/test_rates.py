from __future__ import annotations

import pytest

from agon.match.rates import exchange_rates
from agon.records import Attempt, Completion, Match, Problem, Prompt, Summary, Verdict

PROBLEM = Problem(id="p", question="q", gold="2", task="t", verifier="exact")


def _attempt(role, outcome, answer):
    completion = Completion((1,), (-0.1,), "x", "stop", "A", 0)
    return Attempt(role, "A", Prompt((1,), "q"), completion, Verdict(outcome, 0.0, answer=answer), 1.0)


def _match(draft, challenge, *, leak=False, empty=False):
    summary = Summary("s", is_empty=empty, has_leak=leak, num_withheld=1)
    return Match(PROBLEM, 0, (_attempt("drafter", *draft),), (summary,), _attempt("challenger", *challenge))


def test_rates_of_a_worked_table():
    matches = [
        _match(("wrong", "3"), ("correct", "2")),  # converted
        _match(("wrong", "3"), ("wrong", "3"), leak=True),  # copied
        _match(("wrong", "3"), ("wrong", "4")),  # another wrong answer
        _match(("truncated", None), ("wrong", "4"), empty=True),  # no answer to copy
        _match(("correct", "2"), ("wrong", "9")),  # regressed
        _match(("correct", "2"), ("correct", "2")),  # kept
        _match(("error", "3"), ("correct", "2")),  # the checker failed: counted nowhere but in the summaries
    ]
    rates = exchange_rates(matches)
    assert rates.conversion == pytest.approx(1 / 4)
    assert rates.regression == pytest.approx(1 / 2)
    assert rates.copy == pytest.approx(1 / 3)
    assert rates.leak == pytest.approx(1 / 7)
    assert rates.empty == pytest.approx(1 / 7)
    assert rates.withheld_mean == 1.0


def test_of_several_drafts_one_right_one_makes_the_match_a_right_draft():
    two = Match(
        PROBLEM,
        0,
        (_attempt("drafter", "wrong", "3"), _attempt("drafter", "correct", "2")),
        (),
        _attempt("challenger", "wrong", "3"),
    )
    rates = exchange_rates([two])
    assert (rates.conversion, rates.regression, rates.copy) == (None, 1.0, None)


def test_drafts_that_nobody_challenged_are_counted_in_no_rate():
    alone = [Match(PROBLEM, 0, (_attempt("drafter", outcome, "3"),)) for outcome in ("wrong", "correct")]
    rates = exchange_rates([*alone, _match(("wrong", "3"), ("correct", "2")), _match(("wrong", "3"), ("wrong", "4"))])
    assert (rates.conversion, rates.regression, rates.copy) == (0.5, None, 0.0)


def test_a_hidden_draft_has_no_summary_to_leak_from():
    hidden = Match(PROBLEM, 0, (_attempt("drafter", "wrong", "3"),), (), _attempt("challenger", "wrong", "3"))
    rates = exchange_rates([hidden])
    # that the answers agree is then chance: the null of a copy rate
    assert (rates.conversion, rates.copy, rates.leak, rates.empty) == (0.0, 1.0, None, None)


def test_matches_without_a_challenge_have_no_rates():
    rates = exchange_rates([Match(PROBLEM, 0, (_attempt("drafter", "correct", "2"),))])
    assert (rates.conversion, rates.regression, rates.copy, rates.leak) == (None, None, None, None)
