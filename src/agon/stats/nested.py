"""Accuracies and differences over several seeds, measured on the same problems: both the problems and the runs are samples.

Every seed's run answers every problem, so the two sources cross. The variance of the mean over S seeds and P problems is

    var(problem means) / P  +  max(0, MS_seed - MS_rest) / (S P)

with the mean squares of the two-way analysis of variance. Problems are resampled (whole problems, all seeds together). Seeds are
not: 3 seeds have 10 distinct resamples, too narrow where the seeds differ. Their share enters through its variance component and
Student's t instead: the bootstrap's arms are lengthened by t(df) sqrt(variance) over the same without seeds. One run leaves the
plain bootstrap by problem, and `unit` says so. Coverage by simulation: docs/statistics.md.

Paper: Hillis, "A comparison of denominator degrees of freedom methods for multiple observer ROC analysis", Statistics in Medicine
26 (2007), where readers and cases stand for seeds and problems: the degrees of freedom are his. The bootstrap's arms are ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import stdtr, stdtrit

from agon.errors import DataError
from agon.seeding import numpy_rng
from agon.stats.intervals import DEFAULT_LEVEL, DEFAULT_RESAMPLES, Interval, accuracy_interval, cluster_bootstrap
from agon.stats.paired import difference_of_gains, mcnemar_exact

Answers = Mapping[str, Sequence[bool]]
"""One run's answers: for each problem, whether each of its samples was right."""


@dataclass(frozen=True, slots=True)
class NestedDifference:
    """Mean of the second method minus mean of the first, over all seeds of each and the `n` problems both were measured on.

    `wins` and `losses` count problems on which the second does better and worse in the mean over seeds. `p` is two-sided, from
    the t that the interval uses, or exact McNemar where the problems do not vary. `df` are the degrees of freedom of that t (None:
    McNemar), `seed_variance` is the part of the difference's variance that the seeds of both add. `discordance` is the mean squared
    gain of a problem. `min_detectable_difference` takes these three.
    """

    difference: float
    interval: Interval
    n: int
    wins: int
    losses: int
    p: float
    discordance: float
    num_seeds: tuple[int, int]
    df: float | None
    seed_variance: float

    def to_json(self) -> dict[str, Any]:
        """Turn the comparison into plain JSON types."""
        return {**asdict(self), "num_seeds": list(self.num_seeds)}


class _Variance(NamedTuple):
    """Variance of a mean by its parts, and Student's degrees of freedom for their sum."""

    of_problems: float
    of_seeds: float
    df: float
    problem_df: float

    @property
    def total(self) -> float:
        return self.of_problems + self.of_seeds


def nested_interval(
    per_seed: Sequence[Answers], *, seed: int, level: float = DEFAULT_LEVEL, num_resamples: int = DEFAULT_RESAMPLES
) -> Interval:
    """Return the interval of a method's accuracy: the mean over its runs of the mean over problems, each problem counting alike.

    One run gives `accuracy_interval`, whose unit is the problem. `seed` names the stream that resamples.

    Raises:
        DataError: the runs were not measured on the same problems.
        ValueError: no runs, no problems, or a problem without samples.
    """
    (table,) = _tables(per_seed)
    if len(per_seed) == 1:
        return accuracy_interval([list(samples) for samples in per_seed[0].values()], seed=seed, level=level)
    means = table.mean(axis=0)
    rng = numpy_rng(seed, "nested interval")
    problems = cluster_bootstrap([[value] for value in means], rng=rng, level=level, num_resamples=num_resamples)
    low, high = _lengthened(float(means.mean()), problems, _variance([table], means))
    return Interval(max(low, 0.0), min(high, 1.0), level, "nested-bootstrap", "problem and seed")


def nested_difference(
    first: Sequence[Answers],
    second: Sequence[Answers],
    *,
    seed: int,
    level: float = DEFAULT_LEVEL,
    num_resamples: int = DEFAULT_RESAMPLES,
) -> NestedDifference:
    """Compare two methods, paired by problem. Their seeds are separate trainings and need not be of equal number.

    A method with one run (an untrained base, or a single training) is taken as it stands: its training noise is not in the
    interval, and `unit` names whose is.

    Raises:
        DataError: the runs were not all measured on the same problems.
        ValueError: a method without runs, no problems, or a problem without samples.
    """
    if not first or not second:
        raise ValueError(f"{len(first)} and {len(second)} runs: each method needs at least one")
    tables = _tables(first, second)
    gains = tables[1].mean(axis=0) - tables[0].mean(axis=0)
    rng = numpy_rng(seed, "nested difference")
    problems = difference_of_gains(gains, rng=rng, level=level, num_resamples=num_resamples)
    variance = _variance(tables, gains)
    low, high = _lengthened(problems.difference, problems.interval, variance)
    unit = _unit(len(first), len(second))
    kind = problems.interval.kind if unit == "problem" else "nested-bootstrap"
    is_exact = all(len(samples) == 1 for run in (*first, *second) for samples in run.values()) and unit == "problem"
    return NestedDifference(
        difference=problems.difference,
        interval=Interval(max(low, -1.0), min(high, 1.0), level, kind, unit),
        n=problems.n,
        wins=problems.wins,
        losses=problems.losses,
        p=_p_value(problems.difference, problems.wins, problems.losses, None if is_exact else variance),
        discordance=float((gains**2).mean()),
        num_seeds=(len(first), len(second)),
        df=None if is_exact or variance.total == 0.0 else variance.df,
        seed_variance=variance.of_seeds,
    )


def seed_variance(per_seed: Sequence[Answers]) -> float:
    """Return the variance of a method's true accuracy from run to run: what its runs vary by beyond the chance of their answers.

    The run component of the two-way analysis of variance, max(0, var(run means) - MS_rest / P); its root is the `seed_sd` of
    `min_detectable_difference`. `seed_spread` is of the measured accuracies, that chance included.

    Raises:
        DataError: the runs were not measured on the same problems.
        ValueError: fewer than two runs.
    """
    if len(per_seed) < 2:
        raise ValueError(f"{len(per_seed)} runs: a spread needs two or more")
    (table,) = _tables(per_seed)
    between, noise = _run_variance(table)
    return max(0.0, between - noise)


def _tables(*methods: Sequence[Answers]) -> list[Float[ndarray, "seeds problems"]]:
    """Return each method's mean correctness by seed and problem, problems in one order."""
    runs = [run for method in methods for run in method]
    if not runs or not all(runs):
        raise ValueError("a mean over seeds needs at least one run, each with at least one problem")
    names = sorted(runs[0])
    for run in runs:
        if run.keys() != runs[0].keys():
            raise DataError(
                f"seeds must be measured on the same problems: one run has {len(names)}, another {len(run)}, "
                f"{len(runs[0].keys() & run.keys())} of them shared; evaluate all on the same split"
            )
        if not all(len(samples) for samples in run.values()):
            raise ValueError("a problem has no samples")
    return [np.array([[sum(run[name]) / len(run[name]) for name in names] for run in method]) for method in methods]


def _variance(tables: Sequence[Float[ndarray, "seeds problems"]], means: Float[ndarray, " problems"]) -> _Variance:
    """Return the variance of the mean of `means`, which are made of the tables' means over seeds."""
    num_problems = len(means)
    of_problems = float(means.var(ddof=1)) / num_problems if num_problems > 1 else 0.0
    of_seeds, reached, fewest = 0.0, 0.0, float(max(num_problems - 1, 1))
    for table in tables:
        num_seeds = len(table)
        if num_seeds == 1:
            continue
        between, noise = (part / num_seeds for part in _run_variance(table))
        of_seeds += max(0.0, between - noise)
        reached += between**2 / (num_seeds - 1)
        fewest = min(fewest, num_seeds - 1.0)
    reached += of_problems**2 / max(num_problems - 1, 1)
    # Fewer than the smallest part has cannot be: the component of that part was estimated at zero then.
    df = max((of_problems + of_seeds) ** 2 / reached, fewest) if reached > 0.0 else fewest
    return _Variance(of_problems, of_seeds, df, max(num_problems - 1.0, 1.0))


def _run_variance(table: Float[ndarray, "seeds problems"]) -> tuple[float, float]:
    """Return the variance of the runs' means, and how much of it the chance of single answers explains."""
    num_seeds, num_problems = table.shape
    rest = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
    df = (num_seeds - 1) * (num_problems - 1)
    noise = float((rest**2).sum()) / df / num_problems if df else 0.0
    return float(table.mean(axis=1).var(ddof=1)), noise


def _lengthened(mean: float, problems: Interval, variance: _Variance) -> tuple[float, float]:
    """Lengthen the arms of an interval over problems by what the seeds add."""
    arms = mean - problems.low, problems.high - mean
    if variance.of_problems == 0.0:
        # Problems all alike: their arms allow for what was not seen, and have no variance to compare the seeds' with.
        reach = float(stdtrit(variance.df, (1.0 + problems.level) / 2)) * math.sqrt(variance.of_seeds)
        return mean - math.hypot(arms[0], reach), mean + math.hypot(arms[1], reach)
    quantiles = [float(stdtrit(df, (1.0 + problems.level) / 2)) for df in (variance.df, variance.problem_df)]
    factor = max(1.0, quantiles[0] / quantiles[1] * math.sqrt(variance.total / variance.of_problems))
    return mean - factor * arms[0], mean + factor * arms[1]


def _p_value(difference: float, wins: int, losses: int, variance: _Variance | None) -> float:
    if variance is None or variance.total == 0.0:
        return mcnemar_exact(wins, losses)
    return float(2.0 * stdtr(variance.df, -abs(difference) / variance.total**0.5))


def _unit(num_first: int, num_second: int) -> str:
    if num_first > 1 and num_second > 1:
        return "problem and seed"
    if num_first == num_second == 1:
        return "problem"
    return "problem and the first's seed" if num_first > 1 else "problem and the second's seed"
