"""Several tests at once: p-values that hold for the whole family."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust a family's p-values, in the order given, so that the chance of any false positive among them stays below the level.

    The smallest of m is multiplied by m, the next by m - 1, and so on; none falls below the one before it, none exceeds 1. No
    assumption on how the tests depend on each other. An empty family has no p-values.

    Raises:
        ValueError: a value is not between 0 and 1.
    Paper: Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of Statistics 6 (1979).
    """
    for value in p_values:
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"p-value {value} must be between 0 and 1")
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted
