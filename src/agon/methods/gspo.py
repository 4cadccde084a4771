"""GSPO: one clipped ratio a sequence. On-policy it is GRPO, so that it takes four optimiser steps a batch of rollouts.

Paper: arXiv:2507.18071 (four minibatches a batch, clip 3e-4 and 4e-4).
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from agon.methods.base import StepView
from agon.methods.solo import Solo, plain_rewards
from agon.records import Attempt


class Gspo(Solo):
    """GRPO with the sequence's geometric mean ratio."""

    name = "gspo"
    fixed = MappingProxyType({"loss": "gspo", "minibatches": 4})

    def rewards(self, attempts: Sequence[Attempt], view: StepView) -> tuple[float, ...]:
        """Reward by Eq. 2 of the Agon paper."""
        return plain_rewards(attempts, view)
