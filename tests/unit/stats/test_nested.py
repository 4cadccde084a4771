import numpy as np
import pandas as pd
import pytest
from scipy.stats import t
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from agon.errors import DataError
from agon.seeding import numpy_rng
from agon.stats import accuracy_interval, mcnemar_exact, nested_difference, nested_interval, seed_variance
from agon.stats.intervals import cluster_bootstrap


def answers(rows):
    """Runs from a seeds x problems table of right and wrong."""
    return [{f"p{i}": [bool(value)] for i, value in enumerate(row)} for row in rows]


def simulated(rng, *, num_seeds, chances, seed_sd, interaction_sd=0.1):
    """Runs whose seeds shift every problem's chance, and each problem's own by more."""
    shifts = rng.normal(0, seed_sd, (num_seeds, 1)) + rng.normal(0, interaction_sd, (num_seeds, len(chances)))
    return answers(rng.random((num_seeds, len(chances))) < np.clip(chances + shifts, 0, 1))


def mean_squares(rows):
    """Mean squares of seeds, problems and the rest, by statsmodels."""
    frame = pd.DataFrame(
        [
            {"y": float(value), "seed": s, "problem": p}
            for s, row in enumerate(rows)
            for p, value in enumerate(np.asarray(row, dtype=float))
        ]
    )
    table = anova_lm(ols("y ~ C(seed) + C(problem)", frame).fit())
    return (table["mean_sq"][name] for name in ("C(seed)", "C(problem)", "Residual"))


ROWS = (np.random.default_rng(2).random((3, 25)) < np.array([[0.4], [0.5], [0.7]])).tolist()
OTHERS = (np.random.default_rng(3).random((4, 25)) < np.array([[0.4], [0.9], [0.8], [0.7]])).tolist()


def test_the_spread_of_seeds_lengthens_the_bootstraps_arms_as_a_two_way_analysis_of_variance_says():
    interval = nested_interval(answers(ROWS), seed=5)
    of_seeds, of_problems, rest = mean_squares(ROWS)
    size = 3 * 25
    variance = (of_problems + max(of_seeds - rest, 0.0)) / size
    df = variance**2 / ((of_seeds / size) ** 2 / 2 + (of_problems / size) ** 2 / 24)
    assert df > 2
    factor = t.ppf(0.975, df) / t.ppf(0.975, 24) * np.sqrt(variance / (of_problems / size))
    # Problems stand in order of their names, p0 p1 p10 p11 ...: the same draws as the nested interval's.
    order = sorted(range(25), key=lambda i: f"p{i}")
    means = np.mean(ROWS, axis=0)[order]
    plain = cluster_bootstrap([[value] for value in means], rng=numpy_rng(5, "nested interval"))
    assert factor > 1.3
    assert interval.low == pytest.approx(means.mean() - factor * (means.mean() - plain.low))
    assert interval.high == pytest.approx(means.mean() + factor * (plain.high - means.mean()))
    assert (interval.kind, interval.unit) == ("nested-bootstrap", "problem and seed")


def test_a_difference_has_the_p_value_of_the_same_analysis():
    out = nested_difference(answers(ROWS), answers(OTHERS), seed=0)
    gains = np.mean(OTHERS, axis=0) - np.mean(ROWS, axis=0)
    of_problems = gains.var(ddof=1) / 25
    reached, of_seeds = of_problems**2 / 24, 0.0
    for rows in (ROWS, OTHERS):
        between, _, rest = (value / (len(rows) * 25) for value in mean_squares(rows))
        of_seeds += max(between - rest, 0.0)
        reached += between**2 / (len(rows) - 1)
    variance = of_problems + of_seeds
    assert out.difference == pytest.approx(gains.mean())
    assert out.p == pytest.approx(2 * t.sf(gains.mean() / np.sqrt(variance), variance**2 / reached))
    assert out.discordance == pytest.approx((gains**2).mean())
    assert (out.n, out.num_seeds) == (25, (3, 4))
    assert (out.wins, out.losses) == ((gains > 1e-9).sum(), (gains < -1e-9).sum())


def test_one_run_is_what_its_own_evaluation_says():
    (run,) = answers([[True] * 7 + [False] * 13])
    assert nested_interval([run], seed=3) == accuracy_interval(list(run.values()), seed=3)
    assert nested_interval([run], seed=3).unit == "problem"


def test_one_run_each_is_tested_by_exact_mcnemar():
    first, second = answers([[0] * 12 + [1] * 5 + [0] * 40]), answers([[1] * 12 + [0] * 5 + [0] * 40])
    out = nested_difference(first, second, seed=0)
    assert out.p == mcnemar_exact(12, 5)
    assert (out.wins, out.losses, out.interval.unit, out.interval.kind) == (12, 5, "problem", "cluster-bootstrap")
    # 17 of 57 problems were solved by one of the two alone.
    assert out.discordance == pytest.approx(17 / 57)


def test_whose_seeds_are_in_the_interval_is_said():
    one, many = answers(ROWS[:1]), answers(OTHERS)
    assert nested_difference(one, many, seed=0).interval.unit == "problem and the second's seed"
    assert nested_difference(many, one, seed=0).interval.unit == "problem and the first's seed"
    assert nested_difference(many, many, seed=0).interval.unit == "problem and seed"


def test_swapping_the_methods_mirrors_the_comparison():
    there = nested_difference(answers(ROWS), answers(OTHERS), seed=0, num_resamples=40_000)
    back = nested_difference(answers(OTHERS), answers(ROWS), seed=0, num_resamples=40_000)
    assert (back.difference, back.p) == pytest.approx((-there.difference, there.p))
    assert (back.interval.low, back.interval.high) == pytest.approx(
        (-there.interval.high, -there.interval.low), abs=0.02
    )


def test_seeds_that_agree_add_nothing():
    rows = [[True] * 30 + [False] * 30] * 3
    interval = nested_interval(answers(rows), seed=0)
    plain = nested_interval(answers(rows[:1]), seed=0)
    # Exact and bootstrap intervals of 30 of 60 differ by little: Clopper-Pearson is the wider.
    assert interval.high - interval.low == pytest.approx(plain.high - plain.low, rel=0.05)


def test_problems_all_alike_never_give_a_width_of_zero():
    always = nested_interval(answers([[True] * 30] * 3), seed=0)
    assert (always.low, always.high) == pytest.approx((0.025 ** (1 / 30), 1.0))
    # Every problem is right in one of two runs: all the spread there is lies between the runs, SD sqrt(.5), of the mean .5.
    # Student's t of 1 df is 12.7: nothing is known.
    torn = nested_interval(answers([[True] * 30, [False] * 30]), seed=0)
    assert (torn.low, torn.high) == (0.0, 1.0)
    same = nested_difference(answers([[True] * 30] * 2), answers([[True] * 30] * 2), seed=0)
    assert same.p == 1.0
    assert same.interval.low < 0 < same.interval.high


def test_one_problem_is_not_a_division_by_zero():
    interval = nested_interval(answers([[True], [False], [True]]), seed=0)
    assert (interval.low, interval.high) == (0.0, 1.0)


def test_problems_count_alike_whatever_their_number_of_samples():
    run = {"a": [True], "b": [False, False, False]}
    interval = nested_interval([run, run, run], seed=0)
    assert interval.low < 0.5 < interval.high
    assert nested_difference([run, run], [{"a": [True], "b": [True]}] * 2, seed=0).difference == pytest.approx(0.5)


def test_seeds_on_other_problems_are_refused_with_numbers():
    with pytest.raises(DataError, match="one run has 2, another 1, 1 of them shared"):
        nested_interval([{"a": [True], "b": [True]}, {"a": [True]}], seed=0)
    with pytest.raises(DataError, match="same problems"):
        nested_difference([{"a": [True]}], [{"b": [True]}], seed=0)


@pytest.mark.parametrize("runs", [[], [{}], [{"a": []}], [{"a": [True]}, {"a": []}]])
def test_nothing_to_average_is_refused(runs):
    with pytest.raises(ValueError, match=r"at least one|no samples"):
        nested_interval(runs, seed=0)
    with pytest.raises(ValueError, match=r"at least one|no samples"):
        nested_difference([{"a": [True]}], runs, seed=0)


def test_the_variance_of_seeds_leaves_out_the_chance_of_single_answers():
    runs = [dict(enumerate(([1], [1], [0], [0]))), dict(enumerate(([1], [1], [1], [1])))]
    # Run means 1/2 and 1: variance 1/8. Problem means 1, 1, 1/2, 1/2, grand mean 3/4; each of the 8 rests is 1/4 or -1/4: they
    # sum to 1/2 in squares, over 3 degrees of freedom and 4 problems 1/24. 1/8 - 1/24 = 1/12.
    assert seed_variance(runs) == pytest.approx(1 / 12)
    # One problem fewer that differs: run means 1/2 and 1, rests of 1/4 again, over 1 degree and 2 problems 1/8. Nothing is left.
    assert seed_variance([{0: [1], 1: [0]}, {0: [1], 1: [1]}]) == 0.0
    with pytest.raises(ValueError, match="1 runs: a spread needs two or more"):
        seed_variance(runs[:1])


def coverage(*, num_seeds, seed_sd, is_difference, repetitions, num_problems=100, num_resamples=200, has_rivals=True):
    """Shares of repetitions whose interval holds the truth: ours, the bootstrap by problem, and one that resamples seeds too.

    Few resamples blur the ends of an interval, and cost up to three points of coverage.
    """
    rng = np.random.default_rng(0)
    hits = np.zeros(3)
    for repetition in range(repetitions):
        chances = 0.1 + 0.8 * rng.beta(0.6, 0.6, num_problems)
        arms = [simulated(rng, num_seeds=num_seeds, chances=chances, seed_sd=seed_sd) for _ in range(1 + is_difference)]
        tables = [
            np.array([[run[f"p{i}"][0] for i in range(num_problems)] for run in arm], dtype=float) for arm in arms
        ]
        truth = 0.0 if is_difference else 0.5
        if is_difference:
            ours = nested_difference(*arms, seed=repetition, num_resamples=num_resamples).interval
        else:
            ours = nested_interval(*arms, seed=repetition, num_resamples=num_resamples)
        intervals = [(ours.low, ours.high)]
        if not has_rivals:
            hits[0] += ours.low <= truth <= ours.high
            continue
        problems = rng.integers(num_problems, size=(num_resamples, num_problems))
        seeds = [rng.integers(num_seeds, size=(num_resamples, num_seeds)) for _ in arms]
        naive = [table.mean(axis=0)[problems].mean(axis=1) for table in tables]
        both = [
            table[rows[:, :, None], problems[:, None, :]].mean(axis=(1, 2))
            for table, rows in zip(tables, seeds, strict=True)
        ]
        for draws in (naive, both):
            values = draws[1] - draws[0] if is_difference else draws[0]
            intervals.append(tuple(np.quantile(values, [0.025, 0.975])))
        hits += [low <= truth <= high for low, high in intervals]
    return hits / repetitions


@pytest.mark.parametrize("is_difference", [False, True])
def test_three_seeds_that_differ_are_covered_where_a_bootstrap_is_too_narrow(is_difference):
    ours, by_problem, over_both = coverage(
        num_seeds=3, seed_sd=0.08, is_difference=is_difference, repetitions=100, num_problems=200
    )
    assert ours >= 0.9
    assert by_problem < 0.7
    assert over_both < ours


def test_seeds_that_do_not_differ_cost_width_but_never_coverage():
    ours, by_problem, _ = coverage(num_seeds=3, seed_sd=0.0, is_difference=True, repetitions=120)
    assert by_problem == pytest.approx(0.95, abs=0.05)
    assert ours >= by_problem


@pytest.mark.slow
@pytest.mark.parametrize("num_seeds", [2, 3, 5])
@pytest.mark.parametrize("seed_sd", [0.0, 0.02, 0.05])
@pytest.mark.parametrize("is_difference", [False, True])
def test_coverage_over_a_grid(num_seeds, seed_sd, is_difference):
    ours, *_ = coverage(
        num_seeds=num_seeds,
        seed_sd=seed_sd,
        is_difference=is_difference,
        repetitions=1000,
        num_problems=200,
        num_resamples=2000,
        has_rivals=False,
    )
    # Three standard errors of a share of .95 in 1,000 are .021. Two seeds that are all the spread there is fall a little short.
    assert (0.9 if num_seeds == 2 else 0.929) <= ours <= 0.995
