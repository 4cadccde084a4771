"""Do two systems fail on the same problems? Measures of the 2x2 table of who was right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agon.stats.passk import pass_at_k


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
    n = both + only_first + only_second + neither
    if n == 0:
        raise ValueError("complementarity needs at least one problem")
    first, second = both + only_first, both + only_second
    cross = both * neither - only_first * only_second
    expected = (first * second + (n - first) * (n - second)) / n**2
    agreement = (both + neither) / n
    return Complementarity(
        both,
        only_first,
        only_second,
        neither,
        q=_ratio(cross, both * neither + only_first * only_second),
        rho=_ratio(cross, math.sqrt(first * (n - first) * second * (n - second))),
        disagreement=(only_first + only_second) / n,
        double_fault=neither / n,
        union=1.0 - neither / n,
        independent_union=1.0 - (1.0 - first / n) * (1.0 - second / n),
        kappa=_ratio(agreement - expected, 1.0 - expected),
        error_jaccard=_ratio(neither, neither + only_first + only_second),
    )


def complementarity_gain(first: Sequence[Sequence[bool]], second: Sequence[Sequence[bool]]) -> float:
    """Return how much more one sample of each solves than two samples of either: union(1 + 1) minus the mean of both pass@2.

    Two samples of one system are the right null for "different blind spots": they too solve more than one. Unbiased; each
    problem needs two or more samples of each system.

    Raises:
        ValueError: no problems, or a problem with fewer than two samples.
    """
    pairs = list(zip(first, second, strict=True))
    if not pairs:
        raise ValueError("complementarity needs at least one problem")
    gains = [
        1.0
        - (1.0 - sum(a) / len(a)) * (1.0 - sum(b) / len(b))
        - 0.5 * (pass_at_k(len(a), sum(a), 2) + pass_at_k(len(b), sum(b), 2))
        for a, b in pairs
    ]
    return sum(gains) / len(gains)


def _ratio(numerator: float, denominator: float) -> float | None:
    return numerator / denominator if denominator else None
