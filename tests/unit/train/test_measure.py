from __future__ import annotations

from agon.methods.base import StepView
from agon.methods.registry import method_named
from agon.rewards.terms import RewardWeights
from agon.train.credit import credit_stream
from agon.train.measure import bonus_effective_fraction

PAPER = RewardWeights()


def _fraction(method, groups, *, mask_truncated=False):
    chosen = method_named(method)
    stream = chosen.streams(groups, StepView(0, 0, chosen.lineup(0), PAPER))[1]
    credited = credit_stream(stream, scale="group_std", mask_truncated=mask_truncated)
    return bonus_effective_fraction(stream, credited, weights=PAPER, scale="group_std", mask_truncated=mask_truncated)


def test_the_bonus_is_felt_only_where_outcomes_and_rivals_vary(make_match):
    groups = [
        [make_match("wrong", "correct"), make_match("correct", "correct")],  # all right: nothing
        [make_match("wrong", "wrong"), make_match("correct", "wrong")],  # all wrong: nothing
        [make_match("wrong", "correct"), make_match("wrong", "wrong")],  # one rival for all: std cancels it
        [make_match("wrong", "correct"), make_match("correct", "correct"), make_match("correct", "wrong")],  # felt
    ]
    assert _fraction("agon", groups) == 1 / 4


def test_cooperative_groups_never_feel_a_bonus(make_match):
    groups = [[make_match("wrong", "correct"), make_match("correct", "correct"), make_match("correct", "wrong")]]
    assert _fraction("cooperative", groups) == 0.0


def test_masking_truncated_challenges_is_not_taken_for_the_bonus(make_match):
    # one answer is cut off: masked on both sides of the comparison, it cannot tell the two methods apart
    cut_off = make_match("correct", "truncated", stop="length")
    groups = [[make_match("correct", "correct"), make_match("correct", "wrong"), cut_off]]
    assert _fraction("cooperative", groups, mask_truncated=True) == 0.0
