"""The chance that at least one of k samples is right."""

from __future__ import annotations

import math


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
