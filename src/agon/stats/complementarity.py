"""Do two systems fail on the same problems? Measures of the 2x2 table of who was right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from agon.seeding import numpy_rng
from agon.stats.intervals import (
    DEFAULT_LEVEL,
    DEFAULT_RESAMPLES,
    Interval,
    expanded_percentiles,
    resampled_totals,
)
from agon.stats.paired import difference_of_gains
from agon.stats.passk import pass_at_k

# Of the resamples, in which a measure must have a value for its interval to mean anything.
_DEFINED_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class Complementarity:
    """Counts of problems by who was right, and what they say. None where a measure is undefined (a margin is empty).

    q: Yule's Q. rho: correlation of the two right/wrong columns. union: at least one right. independent_union: what the union
    would be if the two failed independently. error_jaccard: both wrong / at least one wrong.

    Paper: Kuncheva and Whitaker, "Measures of Diversity in Classifier Ensembles", Machine Learning 51 (2003).
    """

    both: int
    only_first: int
    only_second: int
    neither: int
    q: float | None
    rho: float | None
    disagreement: float
    double_fault: float
    union: float
    independent_union: float
    kappa: float | None
    error_jaccard: float | None

    def to_json(self) -> dict[str, Any]:
        """Turn the table into plain JSON types."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Gain:
    """How many more problems a union solves than its null, over `n` problems."""

    gain: float
    interval: Interval
    n: int

    def to_json(self) -> dict[str, Any]:
        """Turn the gain into plain JSON types."""
        return asdict(self)


def complementarity(first: Sequence[bool], second: Sequence[bool]) -> Complementarity:
    """Compare who was right on aligned problems.

    Raises:
        ValueError: no problems, or sequences of different length.
    """
    pairs = list(zip(first, second, strict=True))
    return complementarity_from_counts(
        both=sum(a and b for a, b in pairs),
        only_first=sum(a and not b for a, b in pairs),
        only_second=sum(b and not a for a, b in pairs),
        neither=sum(not a and not b for a, b in pairs),
    )


def complementarity_from_counts(*, both: int, only_first: int, only_second: int, neither: int) -> Complementarity:
    """Compute the measures from the four counts.

    Raises:
        ValueError: the counts add up to nothing.
    """
    counts = (both, only_first, only_second, neither)
    if sum(counts) == 0:
        raise ValueError("complementarity needs at least one problem")
    measures = _measures(np.array([counts], dtype=float))
    defined = {name: None if np.isnan(values[0]) else float(values[0]) for name, values in measures.items()}
    return Complementarity(*counts, **defined)  # pyright: ignore[reportArgumentType] - only what may be None can be


def complementarity_intervals(
    counts: Sequence[tuple[int, int, int, int]],
    *,
    seed: int,
    level: float = DEFAULT_LEVEL,
    num_resamples: int = DEFAULT_RESAMPLES,
) -> dict[str, Interval | None]:
    """Return the bootstrap interval of each measure, resampling problems; one row of the four counts a problem, in the table's order.

    A problem with several samples of each system counts several pairs. None where a measure is undefined, or is in more than one
    resample in twenty, or never varies: few problems on one side of the table say nothing about it.

    Raises:
        ValueError: no problems.
    """
    if not counts:
        raise ValueError("complementarity needs at least one problem")
    table = np.array(counts, dtype=float)
    totals = resampled_totals(table, rng=numpy_rng(seed, "complementarity"), num_resamples=num_resamples)
    own = _measures(table.sum(axis=0, keepdims=True))
    return {
        name: None if np.isnan(own[name][0]) else _interval(values, len(counts), level)
        for name, values in _measures(totals).items()
    }


def complementarity_gain(first: Sequence[Sequence[bool]], second: Sequence[Sequence[bool]]) -> float:
    """Return how much more one sample of each solves than two samples of either: union(1 + 1) minus the mean of both pass@2.

    Two samples of one system are the right null for "different blind spots": they too solve more than one. Unbiased; each
    problem needs two or more samples of each system.

    Raises:
        ValueError: no problems, or a problem with fewer than two samples.
    """
    return float(_gains(first, second, "mean").mean())


def union_gain(
    first: Sequence[Sequence[bool]],
    second: Sequence[Sequence[bool]],
    *,
    null: Literal["mean", "first", "second"] = "mean",
    seed: int,
    level: float = DEFAULT_LEVEL,
    num_resamples: int = DEFAULT_RESAMPLES,
) -> Gain:
    """Return union(1 + 1) minus the pass@2 of one system, or the mean of both, with its interval over problems.

    Raises:
        ValueError: no problems, or a problem with fewer than two samples.
    """
    gains = _gains(first, second, null)
    rng = numpy_rng(seed, "union gain")
    out = difference_of_gains(gains, rng=rng, level=level, num_resamples=num_resamples)
    return Gain(out.difference, out.interval, len(gains))


def _gains(
    first: Sequence[Sequence[bool]], second: Sequence[Sequence[bool]], null: Literal["mean", "first", "second"]
) -> Float[ndarray, " problems"]:
    pairs = list(zip(first, second, strict=True))
    if not pairs:
        raise ValueError("complementarity needs at least one problem")
    weight = {"mean": 0.5, "first": 1.0, "second": 0.0}[null]
    return np.array(
        [
            1.0
            - (1.0 - sum(a) / len(a)) * (1.0 - sum(b) / len(b))
            - weight * pass_at_k(len(a), sum(a), 2)
            - (1.0 - weight) * pass_at_k(len(b), sum(b), 2)
            for a, b in pairs
        ]
    )


def _measures(counts: Float[ndarray, "rows 4"]) -> dict[str, Float[ndarray, " rows"]]:
    """Compute every measure of each row of counts; NaN where it is undefined."""
    both, only_first, only_second, neither = counts.T
    n = counts.sum(axis=1)
    first, second = both + only_first, both + only_second
    cross = both * neither - only_first * only_second
    expected = (first * second + (n - first) * (n - second)) / n**2
    return {
        "q": _ratio(cross, both * neither + only_first * only_second),
        "rho": _ratio(cross, np.sqrt(first * (n - first) * second * (n - second))),
        "disagreement": (only_first + only_second) / n,
        "double_fault": neither / n,
        "union": 1.0 - neither / n,
        "independent_union": 1.0 - (1.0 - first / n) * (1.0 - second / n),
        "kappa": _ratio((both + neither) / n - expected, 1.0 - expected),
        "error_jaccard": _ratio(neither, neither + only_first + only_second),
    }


def _interval(values: Float[ndarray, " resamples"], num_problems: int, level: float) -> Interval | None:
    defined = values[~np.isnan(values)]
    if len(defined) < _DEFINED_SHARE * len(values) or np.ptp(defined) == 0.0:
        return None
    return Interval(*expanded_percentiles(defined, num_problems, level), level, "cluster-bootstrap", "problem")


def _ratio(numerator: Float[ndarray, " rows"], denominator: Float[ndarray, " rows"]) -> Float[ndarray, " rows"]:
    is_defined = denominator != 0.0
    return np.where(is_defined, numerator / np.where(is_defined, denominator, 1.0), np.nan)
