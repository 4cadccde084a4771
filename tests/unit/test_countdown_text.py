from hypothesis import given
from hypothesis import strategies as st

from agon.countdown_text import (
    FIRST_MOVES,
    SECOND_MOVES,
    Try,
    challenge_question,
    draft_question,
    parse_tries,
    render_tries,
    withhold_hits,
)

expressions = st.builds(
    lambda first, second: first + second, st.sampled_from(FIRST_MOVES), st.sampled_from(("", *SECOND_MOVES))
)
tries = st.lists(st.builds(Try, expressions, st.none() | st.integers(0, 32)), max_size=7)


def test_question_names_numbers_by_slot():
    assert draft_question((12, 7, 5), 24) == "a 12 b 7 c 5 =24"


def test_challenge_marks_each_rival_and_an_empty_summary_is_a_symbol():
    text = challenge_question("a 12 b 7 c 5 =24", ["(a-b) *c =25", " ", ""])
    assert text == "a 12 b 7 c 5 =24 rival (a-b) *c =25 rival none rival none"


def test_tries_are_read_with_and_without_spaces_and_other_text_is_left_out():
    text = "first (a-b) *c =25 ; (a * b)=out; (12-7)*5 = 25 so (a+b) *c </think>"
    assert parse_tries(text) == [Try("(a-b)*c", 25), Try("(a*b)", None), Try("(12-7)*5", 25)]


@given(tries)
def test_reading_undoes_writing(items: list[Try]):
    assert parse_tries(render_tries(items)) == items


def test_only_the_hit_is_withheld():
    text = "(a*b) =out ; (a-b) *c =25 ; (a+b) +c =24"
    assert withhold_hits(text, target=24) == ("(a*b) =out ; (a-b) *c =25", 1)


def test_a_right_answer_with_a_wrong_value_is_withheld_too():
    text = "(a-b) *c =25 ; (a+b) +c =23"
    assert withhold_hits(text, target=24, answer="(a+b) + c") == ("(a-b) *c =25", 1)
    assert withhold_hits(text, target=24) == (text, 0)


def test_nothing_but_tries_gets_through():
    assert withhold_hits("the answer is 12+7+5 ; (a+b) +c", target=24) == ("", 0)


@given(tries, st.integers(1, 32))
def test_what_is_shown_holds_no_hit_and_every_miss_in_order(items: list[Try], target: int):
    shown, num_withheld = withhold_hits(render_tries(items), target=target)
    misses = [item for item in items if item.value != target]
    assert parse_tries(shown) == misses
    assert num_withheld == len(items) - len(misses)
    assert f"={target} " not in shown + " "
