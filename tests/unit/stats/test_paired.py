import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar

from agon.errors import DataError
from agon.seeding import numpy_rng
from agon.stats import align, clopper_pearson, mcnemar_exact, paired_difference


def rows(*values):
    return [[value] for value in values]


@pytest.mark.parametrize(
    ("wins", "losses", "p"), [(60, 15, 1.59e-7), (30, 10, 0.00222), (12, 5, 0.1435), (10, 0, 0.00195)]
)
def test_mcnemar_values_of_algorithms_10(wins, losses, p):
    assert mcnemar_exact(wins, losses) == pytest.approx(p, rel=3e-3)


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_agrees_with_statsmodels_and_is_symmetric(wins, losses):
    theirs = mcnemar([[5, wins], [losses, 5]], exact=True).pvalue if wins + losses else 1.0
    assert mcnemar_exact(wins, losses) == pytest.approx(min(theirs, 1.0))
    assert mcnemar_exact(losses, wins) == pytest.approx(mcnemar_exact(wins, losses))


def test_mcnemar_refuses_a_negative_count():
    with pytest.raises(ValueError, match="-1 and 3"):
        mcnemar_exact(-1, 3)


def test_five_wins_and_no_loss_exclude_zero_though_single_intervals_overlap():
    first = rows(*[True] * 60, *[False] * 40)
    second = rows(*[True] * 65, *[False] * 35)
    out = paired_difference(first, second, rng=numpy_rng(0, "p"))
    assert out.difference == pytest.approx(0.05)
    assert (out.wins, out.losses, out.n) == (5, 0, 100)
    assert out.interval.low > 0
    assert clopper_pearson(60, 100).high > clopper_pearson(65, 100).low
    assert (out.interval.kind, out.interval.unit) == ("cluster-bootstrap", "problem")


def test_swapping_the_systems_mirrors_the_result():
    rng = np.random.default_rng(0)
    first, second = (rng.random((80, 1)) < 0.4).tolist(), (rng.random((80, 3)) < 0.5).tolist()
    there = paired_difference(first, second, rng=numpy_rng(0, "p"), num_resamples=20_000)
    back = paired_difference(second, first, rng=numpy_rng(0, "p"), num_resamples=20_000)
    assert back.difference == -there.difference
    assert (back.interval.low, back.interval.high) == pytest.approx((-there.interval.high, -there.interval.low))
    assert (back.wins, back.losses) == (there.losses, there.wins)


def test_pairing_narrows_the_interval_when_systems_agree():
    # 300 problems, 90 % of which both solve alike: sd of the gain is sqrt(.1), so 1.96 sqrt(.1/300) = 0.036 on each side.
    first = rows(*[True] * 150, *[False] * 150)
    second = rows(*[True] * 135, *[False] * 15, *[True] * 15, *[False] * 135)
    out = paired_difference(first, second, rng=numpy_rng(0, "p"))
    assert (out.interval.high - out.interval.low) / 2 == pytest.approx(0.036, rel=0.06)


def test_two_systems_alike_everywhere_are_not_proven_equal():
    out = paired_difference(rows(*[True, False] * 20), rows(*[True, False] * 20), rng=numpy_rng(0, "p"))
    upper = 1 - 0.025 ** (1 / 40)
    assert (out.interval.low, out.interval.high) == pytest.approx((-upper, upper))


def test_a_system_that_wins_everywhere_has_a_limit_below_one():
    out = paired_difference(rows(*[False] * 30), rows(*[True] * 30), rng=numpy_rng(0, "p"))
    # Each unseen problem could cost 2: from +1 to -1.
    assert (out.interval.low, out.interval.high) == pytest.approx((1 - 2 * (1 - 0.025 ** (1 / 30)), 1.0))


@pytest.mark.parametrize(("first", "second"), [([], []), ([[1]], [[1], [0]]), ([[1], []], [[1], [0]])])
def test_what_is_not_paired_is_refused(first, second):
    with pytest.raises(ValueError, match="problem"):
        paired_difference(first, second, rng=numpy_rng(0, "p"))


def test_rows_are_aligned_by_problem_whatever_their_order():
    out = align({"b": [True], "a": [False]}, {"a": [True], "b": [False]})
    assert out == (["a", "b"], [[False], [True]], [[True], [False]])


def test_other_problems_are_refused_with_numbers():
    with pytest.raises(DataError, match="2 and 1 were measured, 1 of them shared"):
        align({"a": 1, "b": 2}, {"a": 1})
