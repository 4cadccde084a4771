"""The terms a reward is added up from. Each is a pure function of one attempt, or of one attempt and its rival.

Paper: Agon, arXiv:2607.07690 (Eq. 2 and 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from agon.config import RewardSettings


@dataclass(frozen=True, slots=True)
class RewardWeights:
    """What reward terms are weighted by: the settings of `[reward]`, whose docstrings give unit and source, with their defaults."""

    correctness: float = 2.0
    format: float = 0.5
    conversion: float = 1.0
    tie_break: float = 0.5
    max_right: int | None = None
    length_target: int | None = None
    length_alpha: float = 3e-4
    length_weight: float = 1.0
    length_from_step: int = 0
    overlong_share: float = 0.2
    shorter_beta: float = 1e-3
    lead_alpha: float = 0.05

    @classmethod
    def of(cls, settings: RewardSettings) -> Self:
        """Return the weights that a recipe sets."""
        return cls(**settings.model_dump())


def plain_reward(is_correct: bool, format_score: float, weights: RewardWeights) -> float:
    """Pay for a right answer and for its form: 2 c + 0.5 phi with the paper's weights (Eq. 2)."""
    return weights.correctness * float(is_correct) + weights.format * format_score


def conversion_bonus(is_correct: bool, rival_is_correct: bool, weights: RewardWeights) -> float:
    """Pay a challenger that is right where its rival was wrong: c(b) (1 - c(a)) (Eq. 3's middle term)."""
    return weights.conversion * float(is_correct and not rival_is_correct)


def margin(is_correct: bool, rival_is_correct: bool) -> float:
    """Pay the difference in correctness, c(b) - c(a): the paper's margin ablation.

    Its second term is constant for the challenger, so it acts as a baseline and not as an incentive (docs/methods.md).
    """
    return float(is_correct) - float(rival_is_correct)


def tie_break(
    is_correct: bool, rival_is_correct: bool, *, num_tokens: int, rival_num_tokens: int, weights: RewardWeights
) -> float:
    """Pay a right challenger that is shorter than its right rival: lambda' c(b) c(a) 1[|b| < |a|].

    Units: points; tokens.
    """
    return weights.tie_break * float(is_correct and rival_is_correct and num_tokens < rival_num_tokens)
