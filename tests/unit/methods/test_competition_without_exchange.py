"""Competition without exchange: inert under group_std where format is constant, and only there."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agon.learner.advantages import RewardGroup, assign_advantages

PAIRS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=16)  # (draft, challenge)
FIXTURES_ARE_FUNCTIONS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def reward_groups(make_match, streams_of):
    """Return a function (method, pairs, format scores) -> the challengers' reward group."""

    def groups(name, pairs, formats=None):
        formats = formats or [1.0] * len(pairs)
        matches = [make_match(a, b, phi_b=phi) for (a, b), phi in zip(pairs, formats, strict=True)]
        rewards = streams_of(name, matches)[1].groups[0].rewards
        return RewardGroup(rewards, [bool(b) for _, b in pairs], formats, [False] * len(pairs))

    return groups


def _by_correctness(pairs):
    correct = [float(b) for _, b in pairs]
    return RewardGroup(correct, [bool(b) for _, b in pairs], [1.0] * len(pairs), [False] * len(pairs))


def _advantages(group, scale, **options):
    return assign_advantages([group], scale, **options).groups[0].advantages


@given(pairs=PAIRS)
@FIXTURES_ARE_FUNCTIONS
def test_a_shared_rival_that_nobody_reads_leaves_the_advantages_of_plain_correctness(reward_groups, pairs):
    shared = reward_groups("shared-hidden", pairs)
    assert _advantages(shared, "group_std", epsilon=0.0) == pytest.approx(
        _advantages(_by_correctness(pairs), "group_std", epsilon=0.0), abs=1e-12
    )
    # With the epsilon beside the deviation, inert up to epsilon / deviation: the smallest deviation of 16 is .25.
    assert _advantages(shared, "group_std") == pytest.approx(
        _advantages(reward_groups("cooperative", pairs), "group_std"), abs=2e-3
    )


@given(pairs=PAIRS)
@FIXTURES_ARE_FUNCTIONS
def test_it_is_inert_within_strata_too(reward_groups, pairs):
    shared = reward_groups("shared-hidden", pairs)
    assert _advantages(shared, "stratified", epsilon=0.0) == pytest.approx(
        _advantages(_by_correctness(pairs), "stratified", epsilon=0.0), abs=1e-12
    )


@given(pairs=PAIRS)
@FIXTURES_ARE_FUNCTIONS
def test_with_means_alone_it_weighs_problems_by_half_as_much_again(reward_groups, pairs):
    # f(a) (c - mean c) with f = 3 where the shared rival was wrong and 2 where it was right: a weight of 1.5.
    shared = _advantages(reward_groups("shared-hidden", pairs), "group_mean")
    plain = _advantages(reward_groups("cooperative", pairs), "group_mean")
    weight = 1.0 if pairs[0][0] else 1.5
    assert shared == pytest.approx([weight * value for value in plain], abs=1e-12)


def test_under_the_batchs_deviation_it_weighs_problems_by_half_as_much_again(reward_groups):
    lost, won = [(0, 1), (0, 0)], [(1, 1), (1, 0)]
    groups = [reward_groups("shared-hidden", pairs) for pairs in (lost, won)]
    first, second = assign_advantages(groups, "batch_std").groups
    assert first.advantages[0] == pytest.approx(1.5 * second.advantages[0])
    groups = [reward_groups("cooperative", pairs) for pairs in (lost, won)]
    first, second = assign_advantages(groups, "batch_std").groups
    assert first.advantages[0] == pytest.approx(second.advantages[0])


def test_where_format_varies_it_is_not_exactly_inert(reward_groups):
    # T3: 3.5, 3, .5, 0 against 2.5, 2, .5, 0
    formats = [1.0, 0.0, 1.0, 0.0]
    lost = reward_groups("shared-hidden", [(0, 1), (0, 1), (0, 0), (0, 0)], formats)
    won = reward_groups("shared-hidden", [(1, 1), (1, 1), (1, 0), (1, 0)], formats)
    pop = {"ddof": 0, "epsilon": 0.0}
    assert _advantages(lost, "group_std", **pop) == pytest.approx([1.1508, 0.8220, -0.8220, -1.1508], abs=6e-5)
    assert _advantages(won, "group_std", **pop) == pytest.approx([1.2127, 0.7276, -0.7276, -1.2127], abs=6e-5)


def test_a_rival_of_ones_own_that_is_read_is_not_inert(reward_groups):
    # T1 in the conversion form: 1.1667, -.8333, .5, -.8333, where correctness alone gives .8660 and -.8660
    own = _advantages(reward_groups("agon", [(0, 1), (0, 0), (1, 1), (1, 0)]), "group_std", epsilon=0.0)
    assert own == pytest.approx([1.1667, -0.8333, 0.5, -0.8333], abs=6e-5)
