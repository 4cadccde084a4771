"""Agon: cooperative exchange, and a bonus for a challenger that is right where its rival was wrong.

Paper: arXiv:2607.07690, Eq. 3. Its ladder of bonus weights is `reward.conversion`.
"""

from __future__ import annotations

from collections.abc import Sequence

from agon.methods.base import StepView
from agon.methods.exchange import Exchange, conversion_rewards
from agon.records import Match


class Agon(Exchange):
    """Exchange with competition."""

    name = "agon"

    def challenge_rewards(self, matches: Sequence[Match], view: StepView) -> tuple[float, ...]:
        """Reward by Eq. 3 against the draft that the challenge read."""
        return conversion_rewards(matches, matches, view)
