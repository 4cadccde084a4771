import itertools
import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.records import Problem
from agon.verifiers.expression import check_expression

OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def countdown(numbers, target, **limits):
    return Problem(
        "id",
        "question",
        "gold",
        "countdown-lite",
        "expression",
        details={"numbers": numbers, "target": target, **limits},
    )


@pytest.mark.parametrize(
    ("answer", "outcome", "reason"),
    [
        ("(12-7)*5", "correct", "comes to 25"),
        ("(a-b) *c", "correct", "comes to 25"),
        ("((a−b))×5", "correct", "comes to 25"),
        ("c*(a-b)", "correct", "comes to 25"),
        ("(a+b)+c", "wrong", "comes to 24, not 25"),
        ("a-b*c", "wrong", "the value 35 is outside 0..32"),
        ("(b-a)+c", "wrong", "the value -5 is outside 0..32"),
        ("(a-b)", "wrong", "leaves out 5"),
        ("25", "wrong", "uses 25 more often than given"),
        ("(a-b)*c+c-c", "wrong", "uses 5, 5 more often than given"),
        ("", "unparsed", "empty answer"),
        ("   ", "unparsed", "empty answer"),
        ("(a-b", "unparsed", "ends too early"),
        ("(a-b*", "unparsed", "ends too early"),
        ("(a-b))*c", "unparsed", "cannot read on at ')'"),
        ("a b c", "unparsed", "cannot read on at 'b'"),
        ("-a+b", "unparsed", "'-' is no number or slot"),
        ("(a-b c", "unparsed", "a bracket is not closed"),
        ("d+a", "unparsed", "'d' is no number or slot"),
        ("ab", "unparsed", "cannot read 'ab'"),
        ("(a-b)*c = 25", "unparsed", "cannot read '= 25'"),
        ("__import__(1)", "unparsed", "cannot read '__import__'"),
        ("(" * 101, "unparsed", "101 characters are too long for an expression"),
    ],
)
def test_outcome_and_reason(answer, outcome, reason):
    verdict = check_expression(countdown([12, 7, 5], 25), answer)
    assert (verdict.outcome, verdict.reason) == (outcome, reason)
    assert verdict.score == float(outcome == "correct")


def test_multiplication_binds_first_and_minus_goes_from_the_left():
    assert check_expression(countdown([9, 4, 2], 17), "9+4*2").is_correct
    assert check_expression(countdown([9, 4, 2], 3), "9-4-2").is_correct


def test_a_number_given_twice_may_be_used_twice():
    assert check_expression(countdown([7, 7, 5], 19), "7+7+5").is_correct
    assert check_expression(countdown([7, 6, 5], 19), "7+7+5").reason == "uses 7 more often than given"


def test_limits_may_be_the_problems_own():
    assert check_expression(countdown([12, 7, 5], 89, largest=100), "a*b+c").is_correct
    assert check_expression(countdown([12, 7, 5], 10, smallest=-10), "c-(b-a)").is_correct


@pytest.mark.parametrize(
    "details",
    [
        {"numbers": ["twelve", 7, 5], "target": 25},
        {"numbers": [12, 7, 5]},
        {"target": 25},
        {"numbers": None, "target": 25},
        {"numbers": [12.5, 7, 5], "target": 25},
        {"numbers": [12, 7, 5], "target": "many"},
        {"numbers": [12, 7, 5], "target": float("nan")},
        {"numbers": [12, 7, 5], "target": float("inf")},
    ],
)
def test_a_row_without_whole_numbers_is_an_error_and_no_verdict_on_the_answer(details):
    verdict = check_expression(Problem("id", "q", "gold", "t", "expression", details=details), "(a-b)*c")
    assert verdict.outcome == "error"
    assert verdict.reason.startswith("the problem has no whole numbers and target: ")


def test_whole_numbers_written_as_text_are_numbers():
    assert check_expression(countdown(["12", 7.0, 5], "25"), "(a-b)*c").is_correct


@given(st.text(alphabet="abc0123456789+-*() =x\n", max_size=120))
def test_any_text_gets_a_verdict(text):
    assert check_expression(countdown([12, 7, 5], 25), text).outcome in ("correct", "wrong", "unparsed")


@given(st.lists(st.integers(1, 15), min_size=3, max_size=3), st.integers(1, 32))
def test_agrees_with_brute_force_on_every_two_move_expression(numbers, target):
    problem = countdown(numbers, target)
    for (x, y, z), (first, second) in itertools.product(
        itertools.permutations("abc"), itertools.product(OPERATORS, repeat=2)
    ):
        left, right, last = (numbers["abc".index(slot)] for slot in (x, y, z))
        inner = OPERATORS[first](left, right)
        outer = OPERATORS[second](inner, last)
        expected = 0 <= inner <= 32 and 0 <= outer <= 32 and outer == target
        assert check_expression(problem, f"({x}{first}{y}) {second}{z}").is_correct == expected
        assert check_expression(problem, f"({left}{first}{right}){second}{last}").is_correct == expected
