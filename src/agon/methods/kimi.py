"""Kimi's length reward: among a problem's completions the shortest right ones gain, the longest lose; wrong ones can only lose.

`reward.length_weight` times the term is added; before step `reward.length_from_step` it is left out, as the paper warms up.
Paper: Kimi k1.5, arXiv:2501.12599; the weight is not known.
"""

from __future__ import annotations

from collections.abc import Sequence

from agon.methods.base import StepView
from agon.methods.solo import Solo, plain_rewards
from agon.records import Attempt
from agon.rewards.length import kimi_terms


class Kimi(Solo):
    """GRPO with a length reward relative to the group."""

    name = "kimi"
    signal = "reward"

    def rewards(self, attempts: Sequence[Attempt], view: StepView) -> tuple[float, ...]:
        """Reward by Eq. 2 and the length reward."""
        plain = plain_rewards(attempts, view)
        if view.step < view.weights.length_from_step:
            return plain
        terms = kimi_terms([a.is_correct for a in attempts], [a.completion.num_tokens for a in attempts])
        return tuple(reward + view.weights.length_weight * term for reward, term in zip(plain, terms, strict=True))
