import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, t

from agon.stats import better_of_two_inflation, clopper_pearson, mcnemar_exact, min_detectable_difference
from agon.stats import problems_needed as needed


@pytest.mark.parametrize(
    ("difference", "discordance", "n"), [(0.15, 0.35, 120), (0.05, 0.25, 783), (0.03, 0.20, 1742), (0.03, 0.25, 2178)]
)
def test_numbers_of_problems_of_algorithms_10_and_back(difference, discordance, n):
    # (1.96 sqrt(.35) + .8416 sqrt(.35 - .0225))^2 / .0225 = (1.1595 + .4816)^2 / .0225 = 119.7, rounded up
    assert needed(difference, discordance) == n
    assert needed(-difference, discordance) == n
    assert min_detectable_difference(n, discordance) <= difference < min_detectable_difference(n - 1, discordance)


@settings(max_examples=25)
@given(st.integers(30, 5000), st.floats(0.05, 1.0), st.floats(0.6, 0.95))
def test_the_two_directions_undo_each_other(n, discordance, power):
    difference = min_detectable_difference(n, discordance, power=power)
    assert needed(difference * (1 + 1e-7), discordance, power=power) in (n, n + 1)


def test_a_simulated_test_reaches_the_power_promised():
    # 120 problems, 25 % won and 10 % lost: a gain of .15 at a discordance of .35.
    rng = np.random.default_rng(1)
    wins, losses, _ = rng.multinomial(120, [0.25, 0.10, 0.65], size=20_000).T
    z = (wins - losses) / np.sqrt(wins + losses)
    # The formula is for the chi-square test without correction; se of a share in 20,000 is .003, the normal limit costs as much.
    assert np.mean(np.abs(z) > norm.ppf(0.975)) == pytest.approx(0.8, abs=0.015)
    exact = [mcnemar_exact(int(w), int(x)) < 0.05 for w, x in zip(wins[:400], losses[:400], strict=True)]
    # The exact test holds its level at every n, and pays for it.
    assert 0.65 < np.mean(exact) < 0.82


def test_spread_between_seeds_raises_what_can_be_seen_and_more_seeds_lower_it():
    plain = min_detectable_difference(300, 0.2)
    three, five = (min_detectable_difference(300, 0.2, num_seeds=k, seed_sd=0.02) for k in (3, 5))
    assert plain < five < three
    assert min_detectable_difference(300, 0.2, num_seeds=3) == plain


def test_no_number_of_problems_outweighs_the_seeds():
    # Three seeds of SD .02 each: the difference has a standard error of .02 sqrt(2/3) = .0163 at any n, and Student's t of
    # 4 df needs 2.776 + .941 of them, .0607.
    reach = (t.ppf(0.975, 4) + t.ppf(0.8, 4)) * 0.02 * np.sqrt(2 / 3)
    assert needed(0.99 * reach, 0.2, num_seeds=3, seed_sd=0.02) is None
    assert needed(1.5 * reach, 0.2, num_seeds=3, seed_sd=0.02) > needed(1.5 * reach, 0.2)


def test_a_test_with_few_degrees_of_freedom_sees_less_even_where_the_seeds_did_not_differ():
    # 300 problems at .2: se .0258. Student's t of 4 df needs 2.776 + .941 of them, the normal 1.960 + .842.
    plain, few = min_detectable_difference(300, 0.2), min_detectable_difference(300, 0.2, df=4.0)
    # The alternative's own variance is .2 - d^2.
    expected = t.ppf(0.975, 4) * np.sqrt(0.2 / 300) + t.ppf(0.8, 4) * np.sqrt((0.2 - few**2) / 300)
    assert few == pytest.approx(expected)
    assert few / plain == pytest.approx((2.776 + 0.941) / (1.960 + 0.842), abs=0.01)
    assert min_detectable_difference(300, 0.2, df=1e9) == pytest.approx(plain)
    # With the seeds' part the degrees of freedom asked for come before those worked out.
    seeds = min_detectable_difference(10**9, 0.2, seed_sd=0.02, df=4.0)
    assert seeds == pytest.approx((t.ppf(0.975, 4) + t.ppf(0.8, 4)) * 0.02 * np.sqrt(2), rel=1e-3)


def test_power_with_seeds_is_what_a_simulation_of_the_test_gives():
    # The seeds' own SD, .03, outweighs the problems' part: Welch's t over 3 and 3 seeds is then nearly the whole test.
    difference = min_detectable_difference(100_000, 0.2, num_seeds=3, seed_sd=0.03)
    rng = np.random.default_rng(0)
    first, second = rng.normal(0.0, 0.03, (20_000, 3)), rng.normal(difference, 0.03, (20_000, 3))
    se = np.sqrt((first.var(axis=1, ddof=1) + second.var(axis=1, ddof=1)) / 3)
    found = np.abs(second.mean(axis=1) - first.mean(axis=1)) / se > t.ppf(0.975, 4)
    # Two quantiles of t stand in for a noncentral t: .80 becomes .78.
    assert found.mean() == pytest.approx(0.8, abs=0.03)


def test_where_nothing_can_be_found_there_is_no_number():
    assert min_detectable_difference(300, 0.0) is None
    # All but certain to miss: 1.96 sqrt(1/3) is more than any difference.
    assert min_detectable_difference(3, 1.0) is None
    assert min_detectable_difference(4, 1.0) < 1.0
    assert needed(1.0, 1.0) == 4


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: min_detectable_difference(0, 0.2), "0 problems"),
        (lambda: min_detectable_difference(10, 1.2), "discordance 1.2"),
        (lambda: min_detectable_difference(10, 0.2, num_seeds=0), "0 seeds"),
        (lambda: min_detectable_difference(10, 0.2, seed_sd=-1), "seed SD of -1"),
        (lambda: min_detectable_difference(10, 0.2, df=0.0), "0.0 degrees of freedom"),
        (lambda: needed(0.0, 0.2), "difference of 0"),
        (lambda: needed(0.5, 0.2), "discordance of 0.25 or more"),
        (lambda: better_of_two_inflation(-1, 0), "standard error -1"),
        (lambda: better_of_two_inflation(1, 2), "correlation 2"),
    ],
)
def test_what_cannot_be_is_refused(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_choosing_the_better_direction_inflates_as_algorithms_10_says():
    # One-sample standard error at .61 of 300: sqrt(.61 * .39 / 300) = .0282.
    se = np.sqrt(0.61 * 0.39 / 300)
    assert round(100 * se, 1) == 2.8
    assert round(100 * better_of_two_inflation(se, 0.5), 1) == 1.1
    assert round(100 * better_of_two_inflation(se, 0.0), 1) == 1.6


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_the_formula_for_the_better_of_two_is_the_mean_of_simulated_maxima(rho):
    draws = np.random.default_rng(0).multivariate_normal([0, 0], [[1, rho], [rho, 1]], size=200_000)
    assert better_of_two_inflation(1.0, rho) == pytest.approx(draws.max(axis=1).mean(), abs=0.006)


def test_what_300_problems_and_one_seed_can_tell_apart():
    # As docs/statistics.md says: 46 against 49 and 30 against 32 cannot be told apart at a discordance of .25, 46 against 61 can.
    seen = min_detectable_difference(300, 0.25)
    assert 0.03 < seen < 0.15
    assert clopper_pearson(138, 300).high < clopper_pearson(183, 300).low
