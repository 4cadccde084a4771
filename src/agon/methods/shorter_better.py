"""ShorterBetter: the aim is the length of the shortest right completion, or the mean where none is right.

Paper: arXiv:2504.21370.
"""

from __future__ import annotations

from collections.abc import Sequence

from agon.methods.base import StepView
from agon.methods.solo import Solo, plain_rewards
from agon.records import Attempt
from agon.rewards.length import shorter_better_terms


class ShorterBetter(Solo):
    """GRPO with a penalty on the distance from the best length seen."""

    name = "shorter-better"
    signal = "reward"

    def rewards(self, attempts: Sequence[Attempt], view: StepView) -> tuple[float, ...]:
        """Reward by Eq. 2, less `reward.shorter_beta` a token of distance."""
        terms = shorter_better_terms([a.is_correct for a in attempts], [a.completion.num_tokens for a in attempts])
        beta = view.weights.shorter_beta
        return tuple(reward - beta * term for reward, term in zip(plain_rewards(attempts, view), terms, strict=True))
