"""Advantages: vectors worked by hand, and what must hold for any rewards.

c is correctness of the challenger's answers, a of the drafts they read, phi their format score.
"""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agon.learner.advantages import RewardGroup, assign_advantages, has_signal


def group(rewards, correct=None, formats=None, masked=None):
    """A group that is kept unless told otherwise: half of it is correct."""
    n = len(rewards)
    return RewardGroup(
        rewards=[float(reward) for reward in rewards],
        is_correct=correct if correct is not None else [index % 2 == 0 for index in range(n)],
        format_scores=formats or [1.0] * n,
        is_masked=masked or [False] * n,
    )


def advantages(rewards, scale="group_std", **options):
    return list(assign_advantages([group(rewards)], scale, signal="reward", **options).groups[0].advantages)


def centred(rewards):
    return advantages(rewards, "group_mean")


def pop(rewards):
    return advantages(rewards, ddof=0, epsilon=0.0)


def smp(rewards):
    return advantages(rewards, ddof=1, epsilon=0.0)


def close(values):
    return pytest.approx(values, abs=6e-5)  # the vectors are printed to four digits


C1, A1 = [1, 0, 1, 0], [0, 0, 1, 1]
C2, A2 = [1, 1, 0, 0, 1, 0, 0, 0], [1, 0, 0, 1, 1, 0, 1, 0]


def coop(c, a):
    return [2 * ci for ci in c]


def margin(c, a):
    return [ci - ai for ci, ai in zip(c, a, strict=True)]


def conv(c, a):
    return [2 * ci + ci * (1 - ai) for ci, ai in zip(c, a, strict=True)]


@pytest.mark.parametrize(
    ("reward", "rewards", "mean_only", "by_pop", "by_smp"),
    [
        (coop, [2, 0, 2, 0], [1, -1, 1, -1], [1, -1, 1, -1], [0.8660, -0.8660, 0.8660, -0.8660]),
        (margin, [1, 0, 0, -1], [1, 0, 0, -1], [1.4142, 0, 0, -1.4142], [1.2247, 0, 0, -1.2247]),
        (
            conv,
            [3, 0, 2, 0],
            [1.75, -1.25, 0.75, -1.25],
            [1.3472, -0.9623, 0.5774, -0.9623],
            [1.1667, -0.8333, 0.5, -0.8333],
        ),
    ],
)
def test_vectors_t1(reward, rewards, mean_only, by_pop, by_smp):
    assert reward(C1, A1) == rewards
    assert centred(rewards) == close(mean_only)
    assert pop(rewards) == close(by_pop)
    assert smp(rewards) == close(by_smp)


@pytest.mark.parametrize(("shared", "size"), [(0, 1.5), (1, 1.0)])
def test_vectors_t1_with_a_shared_opponent(shared, size):
    assert centred(conv(C1, [shared] * 4)) == close([size, -size, size, -size])
    assert centred(margin(C1, [shared] * 4)) == close([0.5, -0.5, 0.5, -0.5])
    for reward in (conv, margin):
        assert pop(reward(C1, [shared] * 4)) == close([1, -1, 1, -1])


def test_vectors_t2():
    assert pop(coop(C2, A2)) == close([1.2910 if c else -0.7746 for c in C2])
    assert advantages(coop(C2, A2)) == close([1.2075 if c else -0.7245 for c in C2])
    assert margin(C2, A2) == [0, 1, 0, -1, 0, 0, -1, 0]
    assert pop(margin(C2, A2)) == close([0.2085, 1.8766, 0.2085, -1.4596, 0.2085, 0.2085, -1.4596, 0.2085])
    assert advantages(margin(C2, A2))[:4] == close([0.1950, 1.7552, 0.1950, -1.3651])
    assert conv(C2, A2) == [2, 3, 0, 0, 2, 0, 0, 0]
    assert pop(conv(C2, A2)) == close([0.9649, 1.8226, -0.7505, -0.7505, 0.9649, -0.7505, -0.7505, -0.7505])
    assert advantages(conv(C2, A2))[:3] == close([0.9025, 1.7047, -0.7020])


def test_vectors_t3_format_mixes_in_and_a_shared_opponent_is_not_exactly_inert():
    phi = [1, 0, 1, 0]
    rewards = [3 * c + 0.5 * f for c, f in zip([1, 1, 0, 0], phi, strict=True)]
    assert rewards == [3.5, 3, 0.5, 0]
    assert pop(rewards) == close([1.1508, 0.8220, -0.8220, -1.1508])
    assert pop([2.5, 2, 0.5, 0]) == close([1.2127, 0.7276, -0.7276, -1.2127])


def test_vectors_t4_format_alone_is_blown_up_to_full_size():
    assert pop([0.5, 0.5, 0.5, 0]) == close([0.5774] * 3 + [-1.7321])
    assert pop([0.5] * 7 + [0]) == close([0.3780] * 7 + [-2.6458])


def test_all_right_answers_with_mixed_rivals_are_dropped_by_correctness_and_split_by_reward():
    # Kept by reward, right answers would be pushed down for having met a stronger rival.
    rewards = conv([1, 1, 1, 1], [0, 1, 0, 1])
    assert rewards == [3, 2, 3, 2]
    by_reward = assign_advantages([group(rewards, [True] * 4)], "group_std", signal="reward", ddof=0, epsilon=0.0)
    assert list(by_reward.groups[0].advantages) == close([1, -1, 1, -1])
    by_correctness = assign_advantages([group(rewards, [True] * 4)], "group_std")
    assert by_correctness.groups[0].advantages == (0.0,) * 4
    assert by_correctness.groups[0].is_learned == (False,) * 4
    assert (by_correctness.num_dead_groups, by_correctness.dead_group_share) == (1, 1.0)


def test_a_group_that_differs_in_format_only_is_kept():
    kept = group([0.5, 0.5, 0.5, 0.0], [False] * 4, [1.0, 1.0, 1.0, 0.0])
    assert has_signal(kept)
    assert not has_signal(group([0.5] * 4, [False] * 4))


def test_a_length_term_says_something_among_right_answers_only():
    assert has_signal(group([2.1, 2.0], [True, True]), "reward")
    assert not has_signal(group([0.1, 0.0], [False, False]), "reward")
    assert not has_signal(group([2.1, 2.0], [True, True]), "correctness")


def test_rounding_is_not_a_signal():
    assert not has_signal(group([0.3, 0.1 + 0.2, 0.3, 0.3], [False] * 4), "reward")


@pytest.mark.parametrize("scale", ["group_std", "group_mean", "batch_std", "stratified"])
@pytest.mark.parametrize("size", [8, 16])
@pytest.mark.parametrize(("low", "high"), [(0.35, 0.95), (0.1, 0.7), (0.35 + 0.1, 0.95 + 0.1)])
def test_rewards_that_floats_cannot_hold_give_bounded_advantages(scale, size, low, high):
    # T02: one-pass deviations cancel and gave advantages of 4,000 and 600,000.
    values = advantages([low] * (size - 1) + [high], scale)
    assert all(abs(value) < 10 for value in values)
    n = size
    expected = (high - low) * (1 - 1 / n)  # the one that stands out, centred
    if scale == "group_mean":
        assert values[-1] == pytest.approx(expected, rel=1e-12)
    else:
        # statistics computes with exact fractions.
        assert values[-1] == pytest.approx(expected / (statistics.stdev([low] * (n - 1) + [high]) + 1e-4), rel=1e-12)


def test_masked_completions_enter_no_statistic():
    # T26: the checker failed for 3 of 8; the five others are a group of five.
    masked = [False, True, False, True, False, False, True, False]
    rewards = [2.0, 99.0, 0.0, 99.0, 2.0, 0.0, -99.0, 0.0]
    credit = assign_advantages([group(rewards, [r == 2.0 for r in rewards], masked=masked)], "group_std")
    five = advantages([2.0, 0.0, 2.0, 0.0, 0.0])
    kept = [value for value, mask in zip(credit.groups[0].advantages, masked, strict=True) if not mask]
    assert kept == pytest.approx(five, rel=1e-12)
    assert [value for value, mask in zip(credit.groups[0].advantages, masked, strict=True) if mask] == [0.0] * 3
    assert credit.groups[0].is_learned == tuple(not mask for mask in masked)
    assert credit.num_masked == 3


@pytest.mark.parametrize("num_masked", [3, 4])
def test_a_group_with_fewer_than_two_checked_completions_is_dead(num_masked):
    masked = [True] * num_masked + [False] * (4 - num_masked)
    credit = assign_advantages([group([2, 0, 2, 0], masked=masked)], "group_std")
    assert credit.num_dead_groups == 1
    assert not any(credit.groups[0].is_learned)


def test_batch_std_is_that_of_all_kept_rewards():
    groups = [group([2, 0, 2, 0]), group([3, 2, 0, 0]), group([5, 5, 5, 5])]
    credit = assign_advantages(groups, "batch_std")
    deviation = statistics.stdev([2, 0, 2, 0, 3, 2, 0, 0])  # the dead group is not in it
    assert credit.groups[1].advantages[0] == pytest.approx((3 - 1.25) / (deviation + 1e-4), rel=1e-12)
    assert credit.dead_group_share == pytest.approx(1 / 3)


def stratified(rewards, strata, correct, **options):
    n = len(rewards)
    given = RewardGroup([float(r) for r in rewards], correct, [1.0] * n, [False] * n, strata)
    return assign_advantages([given], "stratified", **options)


def test_strata_have_baselines_of_their_own_and_one_deviation():
    # Draft wrong: rewards 3, 0, 0, mean 1; draft right: 2, 2, 0, mean 4/3. Squares around them: 4 + 1 + 1 and 2 (2/3)^2 + (4/3)^2 =
    # 8/3, together 26/3; of six, two means taken: / 4. The deviation is sqrt(13/6) = 1.47196.
    strata, correct = [0, 0, 0, 1, 1, 1], [True, False, False, True, True, False]
    credit = stratified([3, 0, 0, 2, 2, 0], strata, correct, epsilon=0.0)
    deviation = math.sqrt(13 / 6)
    expected = [2 / deviation, -1 / deviation, -1 / deviation, 2 / 3 / deviation, 2 / 3 / deviation, -4 / 3 / deviation]
    assert list(credit.groups[0].advantages) == pytest.approx(expected, rel=1e-12)
    assert credit.groups[0].is_learned == (True,) * 6


def test_within_strata_the_bonus_keeps_its_weight():
    # The same outcomes in both strata: 3 v against 2 v, the ratio of the rewards, whatever the deviation.
    given = stratified([3, 0, 2, 0], [0, 0, 1, 1], [True, False, True, False]).groups[0].advantages
    assert given[0] / given[2] == pytest.approx(1.5)
    # Each stratum divided by its own deviation (1.5 sqrt(2) and sqrt(2)) would make them equal: the bonus would be gone.
    assert 1.5 / statistics.stdev([3, 0]) == pytest.approx(1.0 / statistics.stdev([2, 0]))


def test_a_stratum_without_a_signal_is_dropped_and_a_group_without_any_is_dead():
    # One draft alone, and three challenges that are all right: neither says anything; the pair below does.
    credit = stratified([3, 2, 2, 2, 2, 0], [0, 1, 1, 1, 2, 2], [True, True, True, True, True, False], epsilon=0.0)
    assert credit.groups[0].is_learned == (False, False, False, False, True, True)
    # 2, 0: mean 1, deviation sqrt(2)
    assert list(credit.groups[0].advantages) == pytest.approx([0, 0, 0, 0, 0.5**0.5, -(0.5**0.5)])
    assert credit.num_dead_groups == 0
    dead = stratified([3, 2, 0, 2], [0, 1, 2, 1], [True, True, False, True])
    assert dead.num_dead_groups == 1
    assert dead.groups[0].advantages == (0.0,) * 4


def test_mixed_rivals_of_right_answers_move_nothing_within_strata():
    # 3, 2, 3, 2 beside a stratum that differs: right answers met by a right rival are not pushed down.
    credit = stratified([3, 2, 3, 2, 0], [0, 1, 0, 1, 1], [True, True, True, True, False])
    advantages = credit.groups[0].advantages
    assert advantages[0] == advantages[2] == 0.0
    assert advantages[1] == advantages[3] > 0.0


@pytest.mark.parametrize("strata", [None, [0] * 4])
def test_one_stratum_is_the_group(strata):
    rewards, correct = [3, 0, 2, 0], [True, False, True, False]
    assert list(stratified(rewards, strata, correct).groups[0].advantages) == pytest.approx(advantages(rewards))


def test_none_credits_rewards_as_they_are_and_learns_from_what_was_paid():
    # all right: dead for every other normaliser
    given = group([1, 0, 1, 1], [True] * 4, masked=[False, False, True, False])
    credit = assign_advantages([given, group([0, 0], [False] * 2)], "none")
    assert credit.groups[0].advantages == (1.0, 0.0, 0.0, 1.0)
    assert credit.groups[0].is_learned == (True, False, False, True)
    assert (credit.num_dead_groups, credit.num_revived) == (1, 0)


def test_factors_multiply_positive_and_negative_advantages():
    given = RewardGroup([2.0, 0.0, 0.0, 0.0], [True, False, False, False], [1.0] * 4, [False] * 4, factors=(1.5, 0.5))
    credit = assign_advantages([given], "group_mean")
    # centred: 1.5, -.5, -.5, -.5
    assert credit.groups[0].advantages == (2.25, -0.25, -0.25, -0.25)


def test_zero_variance_groups_are_counted_with_those_that_a_bonus_revives():
    groups = [
        group([3, 2, 3, 2], [True] * 4),  # all right, mixed rivals: revived
        group([2, 2, 2, 2], [True] * 4),
        group([0, 0, 0, 0], [False] * 4),
        group([0, -1, 0, -1], [False] * 4),  # all wrong under the margin: revived
        group([0.5, 0.5, 0.5, 0.0], [False] * 4, [1.0, 1.0, 1.0, 0.0]),  # differs in format by itself
        group([3, 0, 2, 0]),  # differs in correctness
        group([2, 0, 2, 0], masked=[False, True, True, True]),  # one alone
    ]
    credit = assign_advantages(groups, "group_std")
    assert (credit.num_uniform, credit.num_revived, credit.num_dead_groups) == (4, 2, 5)
    # By reward the all-right one is learned from; the all-wrong one never is.
    by_reward = assign_advantages(groups, "group_std", signal="reward")
    assert (by_reward.num_uniform, by_reward.num_revived, by_reward.num_dead_groups) == (4, 2, 4)


def test_no_groups_give_no_credit():
    assert assign_advantages([], "batch_std").groups == ()


REWARDS = st.lists(st.sampled_from([0.0, 0.5, 2.0, 2.5, 3.0, 3.5, -1.0]), min_size=2, max_size=16)


@given(REWARDS, st.floats(-50, 50))
def test_t5_i_a_constant_changes_nothing(rewards, constant):
    assert advantages([reward + constant for reward in rewards]) == pytest.approx(advantages(rewards), abs=1e-9)


@given(REWARDS, st.floats(0.01, 100))
def test_t5_ii_a_scale_changes_nothing_under_std(rewards, scale):
    assert smp([reward * scale for reward in rewards]) == pytest.approx(smp(rewards), abs=1e-9)


@given(st.lists(st.booleans(), min_size=2, max_size=16), st.integers(0, 1))
def test_t5_iii_a_shared_opponent_is_inert_under_std(correct, shared):
    c = [int(value) for value in correct]
    assume(0 < sum(c) < len(c))
    for reward in (conv, margin):
        assert smp(reward(c, [shared] * len(c))) == pytest.approx(smp(coop(c, c)), abs=1e-9)


@given(REWARDS, st.sampled_from(["group_std", "group_mean", "batch_std", "stratified"]))
def test_t5_iv_advantages_sum_to_zero(rewards, scale):
    assert math.fsum(advantages(rewards, scale)) == pytest.approx(0.0, abs=1e-9)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=16), st.randoms())
def test_t5_v_permuting_pairs_permutes_advantages(pairs, random):
    order = list(range(len(pairs)))
    random.shuffle(order)
    c, a = zip(*pairs, strict=True)
    plain = smp(conv(c, a))
    shuffled = smp(conv([c[i] for i in order], [a[i] for i in order]))
    assert shuffled == pytest.approx([plain[i] for i in order], abs=1e-12)


@given(st.lists(st.tuples(st.sampled_from([0.0, 2.0, 2.5, 3.0]), st.integers(0, 1)), min_size=2, max_size=16))
def test_t5_iv_sums_within_strata_are_zero(rows):
    rewards, strata = zip(*rows, strict=True)
    correct = [index % 3 == 0 for index in range(len(rewards))]
    given = stratified(rewards, list(strata), correct).groups[0].advantages
    for label in set(strata):
        own = [value for value, stratum in zip(given, strata, strict=True) if stratum == label]
        assert math.fsum(own) == pytest.approx(0.0, abs=1e-9)


@given(REWARDS, REWARDS)
def test_t5_vi_a_group_does_not_see_another_groups_rewards(first, second):
    alone = assign_advantages([group(first)], "group_std").groups[0]
    beside = assign_advantages([group(first), group(second)], "group_std").groups[0]
    assert alone == beside
