"""Cooperative exchange: draft and challenge, each paid for its own answer.

Paper: Agon, arXiv:2607.07690, Eq. 2.
"""

from __future__ import annotations

from collections.abc import Sequence

from agon.methods.base import StepView
from agon.methods.exchange import Exchange, cooperative_rewards
from agon.records import Match


class Cooperative(Exchange):
    """Exchange without competition."""

    name = "cooperative"

    def challenge_rewards(self, matches: Sequence[Match], view: StepView) -> tuple[float, ...]:
        """Reward by Eq. 2."""
        return cooperative_rewards(matches, view)
