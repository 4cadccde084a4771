"""Dr. GRPO: no division by the group's deviation, none by a completion's length.

Paper: arXiv:2503.20783.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from agon.methods.base import StepView
from agon.methods.solo import Solo, plain_rewards
from agon.records import Attempt


class DrGrpo(Solo):
    """GRPO with advantages that are only centred, and a loss summed over tokens and divided by a constant."""

    name = "dr_grpo"
    fixed = MappingProxyType({"loss": "dr_grpo", "advantage": "group_mean"})

    def rewards(self, attempts: Sequence[Attempt], view: StepView) -> tuple[float, ...]:
        """Reward by Eq. 2 of the Agon paper."""
        return plain_rewards(attempts, view)
