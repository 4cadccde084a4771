"""Fixed roles: A always drafts, B always challenges.

Ablation of Agon, arXiv:2607.07690 (its table 7: 52 against 61 with rotation).
"""

from __future__ import annotations

from collections.abc import Sequence

from agon.methods.base import StepView
from agon.methods.exchange import Exchange, conversion_rewards
from agon.records import Match


class FixedRoles(Exchange):
    """Agon without rotation."""

    name = "fixed-roles"

    def players(self, step: int) -> tuple[str, str]:
        """A drafts, B challenges."""
        return "A", "B"

    def challenge_rewards(self, matches: Sequence[Match], view: StepView) -> tuple[float, ...]:
        """Reward by Eq. 3 against the draft that the challenge read."""
        return conversion_rewards(matches, matches, view)
