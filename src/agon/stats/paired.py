"""Two systems on the same problems: their difference, and whether it may be chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import bdtr

from agon.errors import DataError
from agon.stats.intervals import DEFAULT_LEVEL, DEFAULT_RESAMPLES, Interval, bootstrap_limits, clopper_pearson

Row = TypeVar("Row")


class Aligned(NamedTuple):
    """Rows of two systems in the same order of problems."""

    ids: list[str]
    first: list[Any]
    second: list[Any]


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Mean of the second system minus mean of the first over `n` problems.

    `wins` and `losses` count problems on which the second does better and worse.
    """

    difference: float
    interval: Interval
    n: int
    wins: int
    losses: int

    def to_json(self) -> dict[str, Any]:
        """Turn the comparison into plain JSON types."""
        return asdict(self)


def align(first: Mapping[str, Row], second: Mapping[str, Row]) -> Aligned:
    """Put the rows of two systems side by side, by problem id.

    Raises:
        DataError: they were not measured on the same problems.
    """
    if first.keys() != second.keys():
        shared = len(first.keys() & second.keys())
        raise DataError(
            f"a paired comparison needs the same problems: {len(first)} and {len(second)} were measured, {shared} of them shared; "
            "evaluate both on the same split"
        )
    ids = sorted(first)
    return Aligned(ids, [first[name] for name in ids], [second[name] for name in ids])


def paired_difference(
    first: Sequence[Sequence[float]],
    second: Sequence[Sequence[float]],
    *,
    rng: np.random.Generator,
    level: float = DEFAULT_LEVEL,
    num_resamples: int = DEFAULT_RESAMPLES,
) -> PairedDifference:
    """Compare two systems on aligned problems; both move together when a problem is resampled.

    Each problem counts by the mean of its samples, of which the two systems may have different numbers. Where every problem has
    the same difference the bootstrap cannot vary: the interval then allows for the problems that none of n showed, at the exact
    upper limit of their share.

    Raises:
        ValueError: no problems, a problem without samples, or sequences of different length.
    """
    if not first or len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} problems: both need the same, at least one")
    if not all(len(samples) for samples in (*first, *second)):
        raise ValueError("a problem has no samples")
    gains = np.array([float(np.mean(b)) - float(np.mean(a)) for a, b in zip(first, second, strict=True)])
    return difference_of_gains(gains, rng=rng, level=level, num_resamples=num_resamples)


def difference_of_gains(
    gains: Float[ndarray, " problems"], *, rng: np.random.Generator, level: float, num_resamples: int
) -> PairedDifference:
    """Compare two systems by each problem's gain, as `paired_difference` does."""
    mean = float(gains.mean())
    if np.ptp(gains) == 0.0:
        unseen = clopper_pearson(0, len(gains), level).high
        interval = Interval(mean - unseen * (1 + mean), mean + unseen * (1 - mean), level, "clopper-pearson", "problem")
    else:
        low, high = bootstrap_limits(gains, np.ones_like(gains), rng=rng, level=level, num_resamples=num_resamples)
        interval = Interval(low, high, level, "cluster-bootstrap", "problem")
    return PairedDifference(mean, interval, len(gains), int((gains > 0).sum()), int((gains < 0).sum()))


def mcnemar_exact(wins: int, losses: int) -> float:
    """Return the two-sided p-value of `wins` against `losses` discordant problems under a fair coin; 1 when there are none.

    Raises:
        ValueError: a negative count.
    """
    if wins < 0 or losses < 0:
        raise ValueError(f"{wins} and {losses} discordant problems: counts cannot be negative")
    if wins + losses == 0:
        return 1.0
    return min(1.0, 2.0 * float(bdtr(min(wins, losses), wins + losses, 0.5)))
