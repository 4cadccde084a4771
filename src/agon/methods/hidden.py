"""Hidden opponents: Agon's bonus over the own match's draft, which the challenger cannot see.

The bonus then cannot depend on anything the challenger knows: noise on correctness (docs/methods.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from agon.methods.base import StepView
from agon.methods.exchange import Exchange, conversion_rewards
from agon.records import Match


class Hidden(Exchange):
    """Competition with an opponent for each rollout, without exchange."""

    name = "hidden"
    reads = "hidden"

    def challenge_rewards(self, matches: Sequence[Match], view: StepView) -> tuple[float, ...]:
        """Reward by Eq. 3 against the own match's draft, unseen."""
        return conversion_rewards(matches, matches, view)
