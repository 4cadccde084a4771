"""One opponent for all challenges of a problem: its first draft. Hidden (competition without exchange) or visible to all.

All N drafts are played and learned from as in Agon. Paper: arXiv:2607.07690 (its shared opponent is hidden, which changes two things
at once; the visible one changes one).
"""

from __future__ import annotations

from collections.abc import Sequence

from agon.methods.base import StepView
from agon.methods.exchange import Exchange, conversion_rewards
from agon.records import Match


class SharedHidden(Exchange):
    """Competition without exchange. Inert under group_std where the format term is constant (docs/methods.md)."""

    name = "shared-hidden"
    reads = "hidden"

    def challenge_rewards(self, matches: Sequence[Match], view: StepView) -> tuple[float, ...]:
        """Reward by Eq. 3 against the problem's first draft, which nobody reads."""
        return conversion_rewards(matches, [matches[0]] * len(matches), view)


class SharedVisible(Exchange):
    """Exchange with one draft for all; the bonus is the same for the whole group."""

    name = "shared-visible"
    reads = "shared"

    def challenge_rewards(self, matches: Sequence[Match], view: StepView) -> tuple[float, ...]:
        """Reward by Eq. 3 against the problem's first draft, which every challenge reads."""
        return conversion_rewards(matches, [matches[0]] * len(matches), view)
