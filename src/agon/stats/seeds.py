"""How much a result moves from one training run to the next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import chdtri

from agon.stats.intervals import DEFAULT_LEVEL, Interval


@dataclass(frozen=True, slots=True)
class Spread:
    """The run-to-run standard deviation of `n` runs and its interval; None where the runs cannot tell.

    Units: those of the values.
    """

    sd: float | None
    interval: Interval | None
    n: int

    def to_json(self) -> dict[str, Any]:
        """Turn the spread into plain JSON types."""
        return {"sd": self.sd, "interval": self.interval and self.interval.to_json(), "n": self.n}


def seed_spread(values: Sequence[float], level: float = DEFAULT_LEVEL) -> Spread:
    """Return the sample standard deviation (n - 1 in the denominator) of one value a seed, with its exact normal interval.

    One seed has no spread. Equal values have an SD of 0 but no interval: the chi-square interval would have width zero, and a
    few runs that agree to the last problem prove no such thing. With 3 seeds the interval reaches from about half the SD to more
    than six times it. What it measures is the spread of measured accuracies: the seed's own share plus that of sampling one
    completion a problem.

    Raises:
        ValueError: no values.
    """
    if not values:
        raise ValueError("a spread needs at least one run")
    n = len(values)
    if n == 1:
        return Spread(None, None, n)
    # Not numpy's alone: the mean of equal floats may differ from them by a rounding.
    if min(values) == max(values):
        return Spread(0.0, None, n)
    sd = float(np.std(values, ddof=1))
    tail = (1.0 - level) / 2
    low, high = (sd * math.sqrt((n - 1) / float(chdtri(n - 1, 1.0 - quantile))) for quantile in (1.0 - tail, tail))
    return Spread(sd, Interval(low, high, level, "chi-square", "seed"), n)
