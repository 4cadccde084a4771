import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import cohens_kappa

from agon.stats import (
    complementarity,
    complementarity_from_counts,
    complementarity_gain,
    complementarity_intervals,
    union_gain,
)


def test_the_vector_of_algorithms_10():
    out = complementarity_from_counts(both=90, only_first=48, only_second=30, neither=132)
    expected = {
        "q": 0.7838,
        "rho": 0.4751,
        "disagreement": 0.26,
        "double_fault": 0.44,
        "union": 0.56,
        "independent_union": 0.676,
        "kappa": 0.4715,
        "error_jaccard": 0.6286,
    }
    assert {name: round(out.to_json()[name], 4) for name in expected} == expected


@settings(max_examples=40)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_measures_agree_with_numpy_and_statsmodels(pairs):
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    out = complementarity(first, second)
    assert out.both + out.only_first + out.only_second + out.neither == len(pairs)
    assert out.union == pytest.approx(np.mean(np.logical_or(first, second)))
    if np.std(first) and np.std(second):
        assert out.rho == pytest.approx(np.corrcoef(first, second)[0, 1])
        assert out.kappa == pytest.approx(
            cohens_kappa([[out.both, out.only_first], [out.only_second, out.neither]]).kappa
        )
    else:
        assert out.rho is None


def test_measures_without_a_value_are_none():
    out = complementarity([True, True], [True, True])
    assert (out.q, out.rho, out.kappa, out.error_jaccard) == (None, None, None, None)
    assert (out.union, out.double_fault) == (1.0, 0.0)


def test_nothing_to_compare_is_refused():
    with pytest.raises(ValueError, match="at least one problem"):
        complementarity([], [])
    with pytest.raises(ValueError, match="zip"):
        complementarity([True], [])
    with pytest.raises(ValueError, match="at least one problem"):
        complementarity_gain([], [])


def test_systems_that_solve_opposite_problems_gain_what_the_second_sample_cannot():
    # A solves problem 1 always and 2 never, B the reverse: union 1, pass@2 of either 1/2.
    assert complementarity_gain([[True, True], [False, False]], [[False, False], [True, True]]) == pytest.approx(0.5)


def test_a_system_gains_nothing_over_itself_on_average():
    rng = np.random.default_rng(0)
    chance = rng.random(4000)[:, None]
    first, second = (rng.random((4000, 4)) < chance).tolist(), (rng.random((4000, 4)) < chance).tolist()
    assert complementarity_gain(first, second) == pytest.approx(0.0, abs=0.01)


def counts_of(rho, num_problems, rng):
    """Whether each of two systems, right half the time, solved a problem: a hidden normal of each, correlated."""
    normals = rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], size=num_problems) > 0
    first, second = normals.T
    table = [(first & second), (first & ~second), (~first & second), (~first & ~second)]
    return [tuple(int(value) for value in row) for row in np.array(table).T]


def test_intervals_of_measures_agree_with_scipys_bootstrap():
    rows = counts_of(0.6, 120, np.random.default_rng(0))
    out = complementarity_intervals(rows, seed=0, num_resamples=20_000)
    first, second = ([row[0] + row[i] for row in rows] for i in (1, 2))
    tail = scipy.stats.norm.cdf(scipy.stats.t.ppf(0.025, 119) * np.sqrt(120 / 119))
    theirs = scipy.stats.bootstrap(
        (first, second),
        lambda a, b: np.corrcoef(a, b)[0, 1],
        paired=True,
        vectorized=False,
        n_resamples=4000,
        method="percentile",
        confidence_level=1 - 2 * tail,
        rng=np.random.default_rng(1),
    ).confidence_interval
    assert (out["rho"].low, out["rho"].high) == pytest.approx((theirs.low, theirs.high), abs=0.02)
    assert out["rho"].unit == "problem"


def test_the_interval_of_rho_covers_the_truth():
    # Signs of normals correlated by .5 are correlated by 2/pi asin(.5) = 1/3.
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(200):
        interval = complementarity_intervals(counts_of(0.5, 80, rng), seed=int(rng.integers(1000)), num_resamples=500)
        hits += interval["rho"].low <= 1 / 3 <= interval["rho"].high
    # Three standard errors of a share of .95 in 200 are .046.
    assert 0.90 <= hits / 200 <= 1.0


def test_a_measure_that_few_problems_decide_has_no_interval():
    # One problem that only the second failed: every third resample lacks it, and has no rho.
    rows = [(1, 0, 0, 0)] * 30 + [(0, 1, 0, 0)]
    out = complementarity_intervals(rows, seed=0)
    assert out["rho"] is None
    assert out["double_fault"] is None
    assert out["disagreement"].low == 0.0
    assert 1 / 31 < out["disagreement"].high < 0.2
    with pytest.raises(ValueError, match="at least one problem"):
        complementarity_intervals([], seed=0)


def test_a_union_is_measured_against_either_system_and_their_mean():
    # A: right 2 of 2, 0 of 2. B: right 1 of 2 on both. union: 1 - 0, 1 - 1 * .5; pass@2 of A: 1, 0; of B: 1, 1.
    first, second = [[True, True], [False, False]], [[True, False], [False, True]]
    gains = {null: union_gain(first, second, null=null, seed=0).gain for null in ("mean", "first", "second")}
    assert gains == pytest.approx({"first": 0.25, "second": -0.25, "mean": 0.0})
    assert complementarity_gain(first, second) == pytest.approx(0.0)


def test_the_interval_of_a_gain_excludes_zero_where_blind_spots_differ_and_only_there():
    rng = np.random.default_rng(0)
    chance = rng.random((200, 2))
    draw = lambda p: (rng.random((200, 2)) < p[:, None]).tolist()  # noqa: E731
    different = union_gain(draw(chance[:, 0]), draw(chance[:, 1]), seed=0)
    same = union_gain(draw(chance[:, 0]), draw(chance[:, 0]), seed=0)
    # Two uniform chances: union 1 - 1/4, pass@2 of one 1 - 1/3: a gain of 1/12.
    assert different.interval.low < 1 / 12 < different.interval.high
    assert different.interval.low > 0
    assert same.interval.low < 0 < same.interval.high
    assert different.n == 200
