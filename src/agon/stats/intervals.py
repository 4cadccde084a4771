"""Intervals of accuracies. Every one names its kind and its unit of resampling, and none has width zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import betaincinv, ndtr, stdtrit

from agon.seeding import numpy_rng

IntervalKind = Literal["clopper-pearson", "cluster-bootstrap", "nested-bootstrap", "chi-square"]

DEFAULT_LEVEL = 0.95
DEFAULT_RESAMPLES = 10_000
_NUMBERS_AT_ONCE = 4_000_000
_BLOCK = 100


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval, how it was made, and what was counted as one independent draw (`unit`)."""

    low: float
    high: float
    level: float
    kind: IntervalKind
    unit: str

    def to_json(self) -> dict[str, Any]:
        """Turn the interval into plain JSON types."""
        return asdict(self)


def clopper_pearson(k: int, n: int, level: float = DEFAULT_LEVEL, *, unit: str = "problem") -> Interval:
    """Return the exact interval of a proportion from `k` successes in `n` independent trials.

    Raises:
        ValueError: n is not positive, or k is not in 0..n.
    """
    if n < 1 or not 0 <= k <= n:
        raise ValueError(f"{k} successes in {n} trials: n must be 1 or more and k between 0 and n")
    return _beta_interval(k, n, level, unit)


def accuracy_interval(per_problem: Sequence[Sequence[bool]], *, seed: int, level: float = DEFAULT_LEVEL) -> Interval:
    """Return the interval of the mean correctness over problems and samples.

    One sample a problem: exact Clopper-Pearson. Several: the cluster bootstrap by problem, since samples of one problem are not
    independent. Where every problem has the same share of right samples (none, or all of them) the bootstrap cannot vary, and
    the exact interval with problems as trials takes its place.

    Raises:
        ValueError: no problems, or a problem without samples.
    """
    _check_clusters(per_problem)
    if all(len(samples) == 1 for samples in per_problem):
        return clopper_pearson(sum(samples[0] for samples in per_problem), len(per_problem), level)
    return cluster_bootstrap(per_problem, rng=numpy_rng(seed, "accuracy interval"), level=level)


def cluster_bootstrap(
    per_problem: Sequence[Sequence[float]],
    *,
    rng: np.random.Generator,
    level: float = DEFAULT_LEVEL,
    num_resamples: int = DEFAULT_RESAMPLES,
) -> Interval:
    """Return the interval of the mean of values in 0..1, resampling whole problems with all their samples.

    The percentiles are those of Hesterberg's expanded interval, which corrects the bootstrap's narrowness with few problems.
    See `accuracy_interval` for problems that are all alike.

    Raises:
        ValueError: no problems, or a problem without samples.
    Paper: Hesterberg, "What Teachers Should Know About the Bootstrap", arXiv:1411.5279, section 4.3.
    """
    _check_clusters(per_problem)
    sums = np.array([float(sum(samples)) for samples in per_problem])
    counts = np.array([len(samples) for samples in per_problem], dtype=float)
    means = sums / counts
    if np.ptp(means) == 0.0:
        return _beta_interval(float(means[0]) * len(means), len(means), level, "problem")
    low, high = bootstrap_limits(sums, counts, rng=rng, level=level, num_resamples=num_resamples)
    return Interval(low, high, level, "cluster-bootstrap", "problem")


def bootstrap_limits(
    sums: Float[ndarray, " problems"],
    counts: Float[ndarray, " problems"],
    *,
    rng: np.random.Generator,
    level: float,
    num_resamples: int,
) -> tuple[float, float]:
    """Return the expanded percentiles of sum(sums) / sum(counts) over resampled problems.

    The same `rng` draws the same problems for every table of that many, so that many intervals cost one drawing.
    """
    table = np.stack([sums, counts], axis=1)
    values = resampled_totals(table, rng=rng, num_resamples=num_resamples)
    return expanded_percentiles(values[:, 0] / values[:, 1], len(sums), level)


def resampled_totals(
    table: Float[ndarray, "problems columns"], *, rng: np.random.Generator, num_resamples: int
) -> Float[ndarray, "resamples columns"]:
    """Return each column's total over every resample of the rows, one row a problem."""
    num_problems = len(table)
    blocks_at_once = max(1, _NUMBERS_AT_ONCE // (_BLOCK * num_problems))
    stream = int(rng.integers(2**63))
    totals: list[np.ndarray] = []
    num_blocks = -(-num_resamples // _BLOCK)
    for start in range(0, num_blocks, blocks_at_once):
        drawn = _draw(stream, start, min(blocks_at_once, num_blocks - start), num_problems)
        totals.append(drawn[: num_resamples - start * _BLOCK] @ table)
    return np.concatenate(totals)


def expanded_percentiles(
    values: Float[ndarray, " resamples"], num_problems: int, level: float = DEFAULT_LEVEL
) -> tuple[float, float]:
    """Return the interval that a statistic's values over resamples of `num_problems` problems span."""
    tail = _expanded_tail(num_problems, level)
    low, high = np.quantile(values, [tail, 1.0 - tail])
    return float(low), float(high)


@lru_cache(maxsize=2)
def _draw(stream: int, start: int, num_blocks: int, num_problems: int) -> Float[ndarray, "resamples problems"]:
    """Return how often each problem is in each resample of some blocks; a block's draws depend on its number alone."""
    blocks = [
        numpy_rng(stream, "resamples", block).integers(num_problems, size=(_BLOCK, num_problems))
        for block in range(start, start + num_blocks)
    ]
    drawn = np.concatenate(blocks)
    drawn += np.arange(len(drawn))[:, None] * num_problems
    counts = np.bincount(drawn.ravel(), minlength=drawn.size)
    return counts.reshape(drawn.shape).astype(float)


def _expanded_tail(num_problems: int, level: float) -> float:
    reach = float(stdtrit(num_problems - 1, (1.0 - level) / 2)) * np.sqrt(num_problems / (num_problems - 1))
    return float(ndtr(reach))


def _beta_interval(k: float, n: int, level: float, unit: str) -> Interval:
    tail = (1.0 - level) / 2
    low = 0.0 if k <= 0 else float(betaincinv(k, n - k + 1, tail))
    high = 1.0 if k >= n else float(betaincinv(k + 1, n - k, 1.0 - tail))
    return Interval(low, high, level, "clopper-pearson", unit)


def _check_clusters(per_problem: Sequence[Sequence[float]]) -> None:
    if not per_problem:
        raise ValueError("an interval needs at least one problem")
    empty = sum(not len(samples) for samples in per_problem)
    if empty:
        raise ValueError(f"{empty} of {len(per_problem)} problems have no samples")
