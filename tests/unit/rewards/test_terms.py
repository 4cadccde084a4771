from __future__ import annotations

import itertools

from agon.config import RewardSettings
from agon.rewards.terms import RewardWeights, conversion_bonus, margin, plain_reward, tie_break

PAPER = RewardWeights()


def test_plain_reward_is_two_for_right_and_half_for_form():
    # Eq. 2: 2 c + 0.5 phi
    assert [plain_reward(c, phi, PAPER) for c in (True, False) for phi in (1.0, 0.0)] == [2.5, 2.0, 0.5, 0.0]


def test_bonus_is_paid_only_for_being_right_where_the_rival_was_wrong():
    # Paid is c of the challenger times one minus c of the drafter.
    paid = {(b, a): conversion_bonus(b, a, PAPER) for b, a in itertools.product((True, False), repeat=2)}
    assert paid == {(True, False): 1.0, (True, True): 0.0, (False, False): 0.0, (False, True): 0.0}


def test_margin_is_the_difference_in_correctness():
    assert [margin(b, a) for b in (True, False) for a in (True, False)] == [0.0, 1.0, -1.0, 0.0]


def test_rewards_of_the_worked_vectors():
    # T1 and T2 of tests/unit/methods/test_agon.py: rewards before normalisation.
    c1, a1 = (1, 0, 1, 0), (0, 0, 1, 1)
    assert [2.0 * c + conversion_bonus(bool(c), bool(a), PAPER) for c, a in zip(c1, a1, strict=True)] == [3, 0, 2, 0]
    assert [margin(bool(c), bool(a)) for c, a in zip(c1, a1, strict=True)] == [1, 0, 0, -1]
    c2, a2 = (1, 1, 0, 0, 1, 0, 0, 0), (1, 0, 0, 1, 1, 0, 1, 0)
    assert [2.0 * c + conversion_bonus(bool(c), bool(a), PAPER) for c, a in zip(c2, a2, strict=True)] == [
        2,
        3,
        0,
        0,
        2,
        0,
        0,
        0,
    ]
    assert [margin(bool(c), bool(a)) for c, a in zip(c2, a2, strict=True)] == [0, 1, 0, -1, 0, 0, -1, 0]


def test_weights_scale_the_terms():
    weights = RewardWeights(correctness=4.0, format=1.0, conversion=3.0)
    assert plain_reward(True, 1.0, weights) == 5.0
    assert conversion_bonus(True, False, weights) == 3.0


def test_the_tie_break_wants_both_right_and_the_challenger_shorter():
    weights = RewardWeights(tie_break=0.25)
    paid = {
        (b, a, lengths): tie_break(b, a, num_tokens=lengths[0], rival_num_tokens=lengths[1], weights=weights)
        for b, a in itertools.product((True, False), repeat=2)
        for lengths in ((4, 5), (5, 5), (6, 5))
    }
    assert {case for case, points in paid.items() if points} == {(True, True, (4, 5))}
    assert paid[True, True, (4, 5)] == 0.25


def test_weights_are_the_settings_of_the_reward_table():
    assert RewardWeights.of(RewardSettings()) == RewardWeights()
    assert RewardWeights.of(RewardSettings(conversion=3.0, length_target=50)) == RewardWeights(
        conversion=3.0, length_target=50
    )
