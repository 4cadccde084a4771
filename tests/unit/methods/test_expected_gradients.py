"""Expected gradients by exact enumeration: the algebra that docs/methods.md states.

A draft is right with probability p; a challenger that sees it is right with q[a]. The score of a challenge is c - q[a]. All outcomes
of G matches are enumerated with their probabilities; a method gives the rewards, the learner's normaliser the advantages, and

    g(a) = E[ sum over the matches whose draft is a of A_i (c_i - q[a_i]) ] / G.
"""

from __future__ import annotations

import itertools
import math

import pytest

from agon.learner.advantages import RewardGroup, assign_advantages

P, Q = 0.3, (0.2, 0.7)
POP = {"ddof": 0, "epsilon": 0.0}


def _probability(outcome, p, q):
    total = 1.0
    for a, c in outcome:
        total *= (p if a else 1 - p) * (q[a] if c else 1 - q[a])
    return total


def _multisets(size):
    """Outcomes of `size` matches up to their order, with the number of orders: enough where the pairing is a match's own."""
    cells = [(0, 0), (0, 1), (1, 0), (1, 1)]
    for outcome in itertools.combinations_with_replacement(cells, size):
        orders = math.factorial(size)
        for cell in cells:
            orders //= math.factorial(outcome.count(cell))
        yield outcome, orders


def _sequences(size):
    for outcome in itertools.product([(0, 0), (0, 1), (1, 0), (1, 1)], repeat=size):
        yield outcome, 1


def _shared(size):
    """All challenges meet one draft."""
    for a in (0, 1):
        for count in range(size + 1):
            yield tuple((a, int(i < count)) for i in range(size)), math.comb(size, count)


@pytest.fixture
def gradient(make_match, rewards_of):
    """Return a function (method, outcomes, probability, scale) -> (g(0), g(1))."""

    def compute(name, outcomes, scale, *, q=Q, probability=None, scaled_by=1.0):
        sums = [0.0, 0.0]
        for outcome, orders in outcomes:
            weight = orders * (probability or _probability)(outcome, P, q)
            matches = [make_match(a, c, phi_a=0.0, phi_b=0.0) for a, c in outcome]
            rewards = [reward * scaled_by for reward in rewards_of(name, matches)[1]]
            # The vectors are without a filter: marks that differ let every group with unequal rewards through.
            marks = [i % 2 == 0 for i in range(len(rewards))]
            group = RewardGroup(rewards, marks, [1.0] * len(rewards), [False] * len(rewards))
            advantages = assign_advantages([group], scale, **POP).groups[0].advantages
            for (a, c), advantage in zip(outcome, advantages, strict=True):
                sums[a] += weight * advantage * (c - q[a]) / len(outcome)
        return tuple(sums)

    return compute


def _shared_probability(outcome, p, q):
    a = outcome[0][0]
    return (p if a else 1 - p) * math.prod(q[a] if c else 1 - q[a] for _, c in outcome)


# The margin of the vectors is c - a; ours is worth a right answer, 2 (c - a).
CENTRED = [
    ("cooperative", 1.0, (21 / 125, 189 / 2000)),
    ("margin", 0.5, (21 / 250, 189 / 4000)),
    ("agon", 1.0, (63 / 250, 189 / 2000)),
]


@pytest.mark.parametrize(("name", "scaled_by", "expected"), CENTRED)
def test_centred_gradients_of_four_matches(gradient, name, scaled_by, expected):
    assert gradient(name, _multisets(4), "group_mean", scaled_by=scaled_by) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("name", "scaled_by", "expected"), CENTRED)
def test_centred_gradients_are_the_same_with_a_shared_rival(gradient, name, scaled_by, expected):
    shared = {"cooperative": "cooperative", "margin": "margin", "agon": "shared-visible"}[name]
    found = gradient(shared, _shared(4), "group_mean", probability=_shared_probability, scaled_by=scaled_by)
    assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["cooperative", "margin", "shared-visible", "shared-hidden"])
def test_under_std_a_shared_rival_makes_all_forms_one(gradient, name):
    found = gradient(name, _shared(4), "group_std", probability=_shared_probability)
    assert found == pytest.approx((0.1857, 0.1030), abs=6e-5)


@pytest.mark.parametrize(
    ("name", "expected", "ratio"),
    [
        ("cooperative", (0.2145, 0.1206), 1.778),
        ("margin", (0.2038, 0.1084), 1.881),
        ("agon", (0.2461, 0.1046), 2.354),
    ],
)
def test_under_std_a_rival_of_ones_own_tilts_towards_lost_matches(gradient, name, expected, ratio):
    found = gradient(name, _multisets(8), "group_std")
    assert found == pytest.approx(expected, abs=6e-5)
    assert found[0] / found[1] == pytest.approx(ratio, abs=6e-4)


@pytest.mark.parametrize(("size", "ratio"), [(2, 2.501), (4, 2.237)])
def test_the_tilt_of_small_groups(gradient, size, ratio):
    lost, won = gradient("agon", _multisets(size), "group_std")
    assert lost / won == pytest.approx(ratio, abs=6e-4)


def test_a_permuted_bonus_keeps_the_scale_and_loses_the_tilt(gradient):
    found = gradient("permuted", _sequences(4), "group_mean")
    # 3/4 of (2 + .7) v_a P(a): .16 x .7 and .21 x .3
    assert found == pytest.approx((0.2268, 0.127575), abs=1e-12)
    # cooperative's ratio, .168 / .0945
    assert found[0] / found[1] == pytest.approx(1.7778, abs=5e-5)


@pytest.mark.parametrize(
    ("name", "scaled_by", "centred", "by_std"),
    [("cooperative", 1.0, 0.35, 0.390), ("margin", 0.5, 0.175, 0.281), ("hidden", 1.0, 0.4725, 0.385)],
)
def test_a_rival_that_cannot_be_seen_scales_correctness_and_adds_noise(gradient, name, scaled_by, centred, by_std):
    same = (0.3, 0.3)  # a challenger that sees nothing is right as often whatever the draft
    assert sum(gradient(name, _multisets(6), "group_mean", q=same, scaled_by=scaled_by)) == pytest.approx(centred)
    assert sum(gradient(name, _multisets(6), "group_std", q=same)) == pytest.approx(by_std, abs=6e-4)


@pytest.mark.parametrize(
    ("name", "outcomes", "expected"),
    [
        ("cooperative", _multisets, 0.010),
        ("margin", _multisets, 0.168),
        ("agon", _multisets, 0.003),
        ("shared-visible", _shared, 0.186),
    ],
)
def test_how_often_all_rewards_of_a_group_are_equal(make_match, rewards_of, name, outcomes, expected):
    p, q, chance = 0.5, (0.25, 0.85), 0.0
    for outcome, orders in outcomes(8):
        rewards = rewards_of(name, [make_match(a, c) for a, c in outcome])[1]
        weigh = _shared_probability if outcomes is _shared else _probability
        chance += orders * weigh(outcome, p, q) * (len(set(rewards)) == 1)
    assert chance == pytest.approx(expected, abs=6e-4)


def test_the_margins_second_term_is_a_control_variate_that_can_miss():
    # Var(c - b a) is least at b* = q1 - q0 = .5; at b = 1, the margin's, it is Var(c) again.
    def variance(b):
        cells = [(a, c, _probability([(a, c)], P, Q)) for a in (0, 1) for c in (0, 1)]
        mean = sum(weight * (c - b * a) for a, c, weight in cells)
        return sum(weight * (c - b * a - mean) ** 2 for a, c, weight in cells)

    assert variance(0.0) == pytest.approx(0.2275)
    assert variance(1.0) == pytest.approx(0.2275)
    assert variance(0.5) == pytest.approx(0.2275 - 0.105**2 / 0.21)
