from __future__ import annotations

from agon.methods.registry import method_named
from agon.rewards.terms import RewardWeights
from agon.train.credit import credit_stream
from agon.train.measure import bonus_effective_fraction

PAPER = RewardWeights()


def _fraction(method, groups):
    chosen = method_named(method)
    stream = chosen.streams(groups, chosen.lineup(0), PAPER)[1]
    return bonus_effective_fraction(
        stream, credit_stream(stream, scale="group_std", mask_truncated=False), PAPER, "group_std"
    )


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
