"""What k samples of a problem are worth: the chance that one of them is right, and how many are."""

from __future__ import annotations

import math
from collections.abc import Sequence


def pass_at_k(n: int, c: int, k: int) -> float:
    """Estimate pass@k without bias from `c` right samples among `n`: 1 - C(n-c, k) / C(n, k).

    Raises:
        ValueError: c is not in 0..n, or k is not in 1..n.
    Paper: Chen et al., arXiv:2107.03374, in the product form of its released code.
    """
    if not 0 <= c <= n:
        raise ValueError(f"{c} right samples among {n}: c must be between 0 and n")
    if not 1 <= k <= n:
        raise ValueError(f"pass@{k} from {n} samples: k must be between 1 and n")
    if n - c < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / i for i in range(n - c + 1, n + 1))


def avg_at_k(per_problem: Sequence[Sequence[bool]]) -> float:
    """Return avg@k, the mean over problems of the share of a problem's k samples that are right.

    An unbiased estimate of pass@1, with less noise than one sample a problem; each problem counts alike, whatever its k. For small
    sets: k samples of 30 problems are still 30 problems, and `accuracy_interval` counts them so.

    Raises:
        ValueError: no problems, or a problem without samples.
    """
    if not per_problem or not all(len(samples) for samples in per_problem):
        raise ValueError(f"avg@k over {len(per_problem)} problems: it needs at least one, each with a sample")
    return sum(sum(samples) / len(samples) for samples in per_problem) / len(per_problem)
