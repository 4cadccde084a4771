"""Length terms as published, one pure function each. Lengths are sampled tokens, the stop token included."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

# The logistic weight of GRPO-LEAD: floor, ceiling, middle and steepness.
_LEAD_LOW, _LEAD_HIGH, _LEAD_MIDDLE, _LEAD_STEEPNESS = 0.4, 1.5, 0.75, 10.0


def lcpo_exact(is_correct: bool, num_tokens: int, *, target: int, alpha: float) -> float:
    """Return c - alpha |n* - n|.

    Units: a right answer is 1; `alpha` is per token.
    Paper: L1, arXiv:2503.04697 (alpha 3e-4).
    """
    return float(is_correct) - alpha * abs(target - num_tokens)


def lcpo_max(is_correct: bool, num_tokens: int, *, target: int, alpha: float) -> float:
    """Return c clip(alpha (n* - n) + 0.5, 0, 1): half at the target, more below it, nothing for a wrong answer.

    Units: a right answer is at most 1; `alpha` is per token.
    Paper: L1, arXiv:2503.04697 (alpha 3e-4).
    """
    return float(is_correct) * min(max(alpha * (target - num_tokens) + 0.5, 0.0), 1.0)


def kimi_terms(is_correct: Sequence[bool], num_tokens: Sequence[int]) -> tuple[float, ...]:
    """Return lambda = 0.5 - (n - min) / (max - min) for right completions of a group, min(0, lambda) for wrong ones.

    All are 0 where all lengths are equal. Units: points between -0.5 and 0.5.
    Paper: Kimi k1.5, arXiv:2501.12599.
    """
    shortest, longest = min(num_tokens), max(num_tokens)
    if shortest == longest:
        return (0.0,) * len(num_tokens)
    places = [0.5 - (length - shortest) / (longest - shortest) for length in num_tokens]
    return tuple(place if right else min(0.0, place) for right, place in zip(is_correct, places, strict=True))


def lead_terms(is_correct: Sequence[bool], num_tokens: Sequence[int], *, alpha: float) -> tuple[float, ...]:
    """Return exp(-alpha z) for right completions, z their length standardised among the right ones, and -1 for wrong ones.

    The deviation is the population's; z is 0 where the right ones are equally long, or one.
    Paper: GRPO-LEAD, arXiv:2504.09696 (alpha 0.05). The further point that its released code takes off for repetition is left out.
    """
    lengths = [length for length, right in zip(num_tokens, is_correct, strict=True) if right]
    mean = statistics.fmean(lengths) if lengths else 0.0
    spread = statistics.pstdev(lengths) if lengths else 0.0
    return tuple(
        (math.exp(-alpha * (length - mean) / spread) if spread > 0.0 else 1.0) if right else -1.0
        for right, length in zip(is_correct, num_tokens, strict=True)
    )


def lead_factors(right_share: float) -> tuple[float, float]:
    """Return what positive and negative advantages of a group are multiplied by: w(share), and w(1 - share).

    w falls from 1.5 to 0.4 along a logistic curve around 0.75: rare successes and rare failures count most.
    Paper: GRPO-LEAD, arXiv:2504.09696.
    """
    return _lead_weight(right_share), _lead_weight(1.0 - right_share)


def _lead_weight(share: float) -> float:
    return _LEAD_LOW + (_LEAD_HIGH - _LEAD_LOW) / (1.0 + math.exp(_LEAD_STEEPNESS * (share - _LEAD_MIDDLE)))


def shorter_better_terms(is_correct: Sequence[bool], num_tokens: Sequence[int]) -> tuple[float, ...]:
    """Return |l* - l| for each completion of a group; l* is the length of its shortest right one, or its mean length.

    Units: tokens.
    Paper: ShorterBetter, arXiv:2504.21370.
    """
    right = [length for length, correct in zip(num_tokens, is_correct, strict=True) if correct]
    best = min(right) if right else statistics.fmean(num_tokens)
    return tuple(abs(best - length) for length in num_tokens)


def soft_overlong(num_tokens: int, *, cap: float, cache: float) -> float:
    """Return 0 up to `cap - cache` tokens, then a line down to -1 at the cap, and -1 beyond.

    Units: points; tokens.
    Paper: DAPO, arXiv:2503.14476.
    """
    excess = num_tokens - (cap - cache)
    if excess <= 0.0:
        return 0.0
    return -1.0 if num_tokens > cap else -excess / cache
