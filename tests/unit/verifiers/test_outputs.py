from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.verifiers.outputs import brief, difference


def lines(expected, printed):
    return difference(expected, printed, comparison="lines", tolerance=None)


def tokens(expected, printed):
    return difference(expected, printed, comparison="tokens", tolerance=None)


def near(expected, printed, tolerance=1e-6):
    return difference(expected, printed, comparison="tokens", tolerance=tolerance)


@pytest.mark.parametrize("printed", ["a\nb", "a\nb\n", "a \r\nb\n\n", "a\t\nb  \n \n"])
def test_blanks_at_the_end_of_lines_and_newlines_at_the_end_are_free(printed):
    assert lines("a\nb", printed) is None


@pytest.mark.parametrize("printed", ["\na\nb", "a b", "a\n\nb", " a\nb", "A\nb", "a", "a\nb\nc", "a\x0cb", ""])
def test_everything_else_counts_line_by_line(printed):
    assert lines("a\nb", printed) is not None


def test_the_first_other_line_is_told():
    assert lines("1\n2\n3", "1\n5\n3") == "line 2: expected '2', got '5'"
    assert lines("1\n2", "1") == "line 2: expected '2', got the end"
    assert lines("1", "1\n2") == "line 2: expected the end, got '2'"


def test_words_may_stand_anywhere_but_their_order_and_case_count():
    assert tokens("Case #1: 2 2", "Case  #1:\n2 2\n") is None
    assert tokens("Case #1: 2 3", "Case #1: 3 2") == "word 3: expected '2', got '3'"
    assert tokens("YES", "yes") is not None
    assert tokens("1 2", "12") is not None


@pytest.mark.parametrize(
    ("wanted", "printed"),
    [("0.5", "0.5000004"), ("3", "3.0000"), ("1000000", "1000000.9"), ("1e-7", "0"), ("-0.0", "0")],
)
def test_numbers_within_the_tolerance_are_right(wanted, printed):
    assert near(f"Case #1: {wanted}", f"Case #1: {printed}") is None


@pytest.mark.parametrize(
    ("wanted", "printed"),
    [
        ("0.5", "0.500002"),
        ("5", "nan"),
        ("5", "inf"),
        ("5", "1e999"),
        ("10", "1_0"),
        ("5", "five"),
        ("#1:", "#2:"),
        ("1", "1 1"),
    ],
)
def test_numbers_beyond_it_and_words_that_are_no_numbers_are_wrong(wanted, printed):
    assert near(wanted, printed) is not None


def test_numbers_without_a_tolerance_are_words():
    assert tokens("0.5", "0.50") is not None


def test_a_reason_shows_a_bounded_piece_on_one_line():
    assert brief("a\nb") == r"'a\nb'"
    assert brief("x" * 1_000_000) == f"'{'x' * 60}'… (1,000,000 characters)"


@given(st.text(), st.text())
def test_equal_texts_are_right_and_the_comparison_is_symmetric(first, second):
    for compare in (lines, tokens):
        assert compare(first, first) is None
        assert (compare(first, second) is None) == (compare(second, first) is None)
