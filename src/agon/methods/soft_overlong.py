"""Soft overlong punishment: the last stretch before the cap costs up to a point, right or wrong.

Paper: DAPO, arXiv:2503.14476 (rewards +1 and -1, 4,096 of 20,480 tokens are the stretch; the same shares here).
"""

from __future__ import annotations

from collections.abc import Sequence

from agon.methods.base import StepView
from agon.methods.solo import Solo, plain_rewards
from agon.records import Attempt
from agon.rewards.length import soft_overlong


class SoftOverlong(Solo):
    """GRPO with a punishment near the cap."""

    name = "soft-overlong"
    signal = "reward"

    def rewards(self, attempts: Sequence[Attempt], view: StepView) -> tuple[float, ...]:
        """Reward by Eq. 2 and the punishment."""
        own, cap = view.weights, view.max_tokens["drafter"]
        return tuple(
            reward
            + own.length_weight * soft_overlong(attempt.completion.num_tokens, cap=cap, cache=own.overlong_share * cap)
            for reward, attempt in zip(plain_rewards(attempts, view), attempts, strict=True)
        )
