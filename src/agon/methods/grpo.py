"""GRPO: one adapter, one group of 2N completions a problem, no opponent. The baseline at the pair's rollout budget.

Paper: DeepSeekMath, arXiv:2402.03300.
"""

from __future__ import annotations

from collections.abc import Sequence

from agon.methods.base import StepView
from agon.methods.solo import Solo, plain_rewards
from agon.records import Attempt


class Grpo(Solo):
    """Rewards each completion by itself; the loss and the normaliser are the recipe's."""

    name = "grpo"

    def rewards(self, attempts: Sequence[Attempt], view: StepView) -> tuple[float, ...]:
        """Reward by Eq. 2 of the Agon paper."""
        return plain_rewards(attempts, view)
