import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from agon.seeding import numpy_rng
from agon.stats import accuracy_interval, clopper_pearson, cluster_bootstrap


@pytest.mark.parametrize(
    ("k", "low", "high"),
    [
        (69, 18.36, 28.18),
        (90, 24.87, 35.53),
        (96, 26.76, 37.60),
        (102, 28.65, 39.67),
        (105, 29.61, 40.69),
        (138, 40.26, 51.82),
        (183, 55.23, 66.55),
    ],
)
def test_exact_intervals_of_300_problems_are_those_of_algorithms_0_4(k, low, high):
    interval = clopper_pearson(k, 300)
    assert (round(100 * interval.low, 2), round(100 * interval.high, 2)) == (low, high)


@settings(max_examples=40)
@given(
    st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    st.sampled_from([0.5, 0.9, 0.95, 0.99]),
)
def test_exact_intervals_agree_with_scipy_and_statsmodels(counts, level):
    k, n = counts
    interval = clopper_pearson(k, n, level)
    theirs = scipy.stats.binomtest(k, n).proportion_ci(level, "exact")
    assert (interval.low, interval.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    assert (interval.low, interval.high) == pytest.approx(proportion_confint(k, n, 1 - level, "beta"), abs=1e-9)


def test_none_and_all_of_n_have_closed_forms_and_width():
    # 0 of n: the upper limit u solves (1 - u)^n = 0.025.
    none, every = clopper_pearson(0, 25), clopper_pearson(30, 30)
    assert (none.low, none.high) == pytest.approx((0.0, 1 - 0.025 ** (1 / 25)))
    assert (every.low, every.high) == pytest.approx((0.025 ** (1 / 30), 1.0))


@pytest.mark.parametrize(("k", "n"), [(1, 0), (-1, 3), (4, 3)])
def test_impossible_counts_are_refused(k, n):
    with pytest.raises(ValueError, match=f"{k} successes in {n} trials"):
        clopper_pearson(k, n)


def test_one_sample_a_problem_gives_the_exact_interval():
    interval = accuracy_interval([[True]] * 183 + [[False]] * 117, seed=0)
    assert interval == clopper_pearson(183, 300)
    assert (interval.kind, interval.unit, interval.level) == ("clopper-pearson", "problem", 0.95)


def test_several_samples_give_the_bootstrap_by_problem_the_same_for_the_same_seed():
    # Two to twenty samples, so that means of resamples are not a few multiples of one number.
    rows = [[bool((i * j) % 7 < 3) for j in range(2 + i % 19)] for i in range(97)]
    interval = accuracy_interval(rows, seed=7)
    assert (interval.kind, interval.unit) == ("cluster-bootstrap", "problem")
    assert interval == accuracy_interval(rows, seed=7)
    assert interval != accuracy_interval(rows, seed=8)


def test_samples_of_one_problem_do_not_count_as_independent():
    # 400 problems, each right 8 of 8 times or never: knowing 3200 samples is knowing 400.
    rows = [[True] * 8] * 200 + [[False] * 8] * 200
    interval, naive = accuracy_interval(rows, seed=0), clopper_pearson(1600, 3200)
    # Standard error of a mean of 400 fair coins: 0.025; 1.96 of them on each side.
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * 0.025, rel=0.06)
    assert interval.high - interval.low > 2.5 * (naive.high - naive.low)


@pytest.mark.parametrize("samples", [2, 16])
@pytest.mark.parametrize("value", [True, False])
def test_all_right_or_all_wrong_never_has_width_zero(samples, value):
    interval = accuracy_interval([[value] * samples] * 25, seed=0)
    # As many trials as problems, however many samples: 1 - 0.025^(1/25) = 0.137
    assert interval.high - interval.low == pytest.approx(0.1372, abs=1e-4)
    assert interval.kind == "clopper-pearson"


def test_problems_all_half_right_have_an_interval_around_a_half():
    interval = accuracy_interval([[True, False]] * 30, seed=0)
    assert (interval.low, interval.high) == pytest.approx(scipy.stats.binomtest(15, 30).proportion_ci(method="exact"))


def test_one_problem_spans_what_its_exact_interval_spans():
    interval = accuracy_interval([[True, False, True]], seed=0)
    assert interval.low < 2 / 3 < interval.high


def test_the_bootstrap_agrees_with_scipys_percentile_bootstrap():
    rng = np.random.default_rng(3)
    rows = [list(rng.random(4) < p) for p in rng.random(60)]
    interval = cluster_bootstrap(rows, rng=numpy_rng(0, "a"), num_resamples=40_000)
    # The expanded percentile for 60 problems, worked with scipy: Phi(t_59(.025) sqrt(60/59)) = 0.0217
    tail = scipy.stats.norm.cdf(scipy.stats.t.ppf(0.025, 59) * np.sqrt(60 / 59))
    means = np.array([np.mean(row) for row in rows])
    theirs = scipy.stats.bootstrap(
        (means,),
        np.mean,
        confidence_level=1 - 2 * tail,
        n_resamples=40_000,
        method="percentile",
        rng=np.random.default_rng(1),
    ).confidence_interval
    assert (interval.low, interval.high) == pytest.approx((theirs.low, theirs.high), abs=0.004)


def test_problems_with_more_samples_weigh_more():
    # 3 of 4 and 0 of 1 samples right: 3/5 in the mean, and every resample is one of 3/4, 3/5, 0.
    interval = cluster_bootstrap([[1, 1, 1, 0], [0]], rng=numpy_rng(0, "b"))
    assert (interval.low, interval.high) == (0.0, 0.75)


def test_the_bootstrap_covers_the_mean_of_a_model_of_known_accuracy():
    # 30 problems drawn from Beta(1, 1), 4 samples each: the true accuracy is one half.
    rng = np.random.default_rng(11)
    hits = 0
    for _ in range(400):
        rows = rng.binomial(1, rng.random(30)[:, None], size=(30, 4)).tolist()
        interval = cluster_bootstrap(rows, rng=rng, num_resamples=1000)
        hits += interval.low <= 0.5 <= interval.high
    assert 0.93 <= hits / 400 <= 0.98


def test_many_problems_are_resampled_in_pieces_of_bounded_size(monkeypatch):
    rows = [[bool((i * j) % 7 < 3) for j in range(2 + i % 19)] for i in range(50)]
    whole = cluster_bootstrap(rows, rng=numpy_rng(0, "c"), num_resamples=999)
    monkeypatch.setattr("agon.stats.intervals._NUMBERS_AT_ONCE", 50 * 300)
    assert cluster_bootstrap(rows, rng=numpy_rng(0, "c"), num_resamples=999) == whole


@pytest.mark.parametrize("rows", [[], [[True], []]])
def test_nothing_to_average_is_refused(rows):
    with pytest.raises(ValueError, match=r"at least one problem|1 of 2 problems have no samples"):
        accuracy_interval(rows, seed=0)
