from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.match.voting import chosen_draft, confidence, likeliest, majority, votes
from agon.records import Completion, Lineup

THREE = ("A", "A", "A")


def _draft(answer, logprobs=(-0.5,), stop="stop"):
    text = "no answer" if answer is None else f"<answer>{answer}</answer>"
    return Completion(tuple(range(len(logprobs))), logprobs, text, stop, "A", 0)


def test_a_vote_is_a_number_by_value_or_a_text_as_written_and_none_without_an_answer():
    drafts = [_draft("18"), _draft("18.0"), _draft(" x+1 "), _draft(None), _draft("18", stop="length")]
    assert votes(drafts, "tags") == [Fraction(18), Fraction(18), "x+1", None, None]


@pytest.mark.parametrize(
    ("cast", "chosen"),
    [(["3", "2", "5", "2"], 1), (["9", "2", "9", "2"], 0), ([None, "2", None], 1), ([None, None], 0), ([], 0)],
)
def test_the_majority_is_the_first_draft_of_the_most_frequent_answer(cast, chosen):
    assert majority(cast) == chosen


def test_the_majority_stands_only_where_a_line_up_says_so():
    drafts = [_draft("3"), _draft("2"), _draft("2")]
    assert chosen_draft(drafts, Lineup(THREE), "tags") == 0
    assert chosen_draft(drafts, Lineup(THREE, stands="majority"), "tags") == 1
    assert chosen_draft(drafts, Lineup(THREE, has_challenge=True, doubt="agreement"), "tags") == 1
    assert chosen_draft(drafts, Lineup(("A", "B"), stands="second"), "tags") == 1


def test_the_likeliest_draft_is_that_of_the_highest_mean_logprob_whatever_its_length():
    # Sums -0.9, -0.8, -0.2; means -0.3, -0.8, -0.1.
    drafts = [_draft("1", (-0.3, -0.3, -0.3)), _draft("2", (-0.8,)), _draft("3", (-0.1, -0.1))]
    assert likeliest(drafts, "tags") == 2
    assert likeliest(drafts[:2], "tags") == 0
    assert chosen_draft(drafts, Lineup(THREE, stands="likeliest"), "tags") == 2


def test_a_draft_without_an_answer_is_never_the_likeliest_of_those_with_one():
    cut, none, unlikely = _draft("1", (-0.1,), stop="length"), _draft(None, (-0.1,)), _draft("2", (-7.0,))
    assert likeliest([cut, none, unlikely], "tags") == 2
    assert likeliest([cut, none], "tags") == 0
    # Of equals the first.
    assert likeliest([_draft("1", (-1.0,)), _draft("2", (-1.0,))], "tags") == 0


def test_a_likelihood_is_the_mean_logprob_a_token_of_the_draft_that_would_stand():
    # The two 2s are the majority; the first of them has (-0.1 - 0.3 - 0.2) / 3 = -0.2.
    drafts = [_draft("3", (-9.0,)), _draft("2", (-0.1, -0.3, -0.2)), _draft("2", (-4.0,))]
    assert confidence(drafts, "likelihood", "tags") == pytest.approx(-0.2)
    assert confidence(drafts[:1], "likelihood", "tags") == -9.0


@pytest.mark.parametrize("draft", [_draft(None, (-0.1,)), _draft("2", (-0.1,), stop="length")])
def test_no_draft_without_an_answer_is_likely(draft):
    assert confidence([draft], "likelihood", "tags") == -math.inf


@pytest.mark.parametrize(
    ("answers", "share"),
    [(("2", "2.0", "3"), 2 / 3), (("2", None, None), 1 / 3), ((None, None, None), 0.0), (("1", "1", "1"), 1.0)],
)
def test_agreement_is_a_share_of_all_drafts_with_those_that_have_no_answer(answers, share):
    assert confidence([_draft(answer) for answer in answers], "agreement", "tags") == pytest.approx(share)


@given(st.lists(st.sampled_from(["1", "2", "3", None]), min_size=1, max_size=8), st.randoms())
def test_agreement_does_not_depend_on_the_order_of_the_drafts(answers, random):
    drafts = [_draft(answer) for answer in answers]
    shuffled = drafts.copy()
    random.shuffle(shuffled)
    assert confidence(drafts, "agreement", "tags") == confidence(shuffled, "agreement", "tags")
