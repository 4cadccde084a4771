"""The terms a reward is added up from. Each is a pure function of one attempt, or of one attempt and its rival.

Paper: Agon, arXiv:2607.07690 (Eq. 2 and 3).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RewardWeights:
    """Points for a right answer, for a well-formed one, and for being right where the rival was wrong."""

    correctness: float = 2.0
    format: float = 0.5
    conversion: float = 1.0


def plain_reward(is_correct: bool, format_score: float, weights: RewardWeights) -> float:
    """Pay for a right answer and for its form: 2 c + 0.5 phi with the paper's weights (Eq. 2)."""
    return weights.correctness * float(is_correct) + weights.format * format_score


def conversion_bonus(is_correct: bool, rival_is_correct: bool, weights: RewardWeights) -> float:
    """Pay a challenger that is right where its rival was wrong: c(b) (1 - c(a)) (Eq. 3's middle term)."""
    return weights.conversion * float(is_correct and not rival_is_correct)


def margin(is_correct: bool, rival_is_correct: bool) -> float:
    """Pay the difference in correctness, c(b) - c(a): the paper's margin ablation.

    Its second term is constant for the challenger, so it acts as a baseline and not as an incentive (ALGORITHMS 12.3).
    """
    return float(is_correct) - float(rival_is_correct)
