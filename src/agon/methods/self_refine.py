"""Trained self-refinement: adapter A drafts, and challenges its own draft. Two streams, one adapter, no opponent.

Both streams are learned from in one step, each normalised by itself. The reward of the paper's control is not known; Eq. 2 on both
turns is the natural reading. With the conversion bonus it is a cell the paper leaves out.
Paper: control of Agon, arXiv:2607.07690; SCoRe, arXiv:2409.12917, without its two stages.
"""

from __future__ import annotations

from collections.abc import Sequence

from agon.methods.base import StepView
from agon.methods.cooperative import Cooperative
from agon.methods.exchange import conversion_rewards
from agon.records import Match


class SelfRefine(Cooperative):
    """Exchange with oneself."""

    name = "self-refine"
    adapters = ("A",)

    def players(self, step: int) -> tuple[str, str]:
        """A plays both roles."""
        return "A", "A"


class SelfRefineConversion(SelfRefine):
    """Exchange with oneself, and a bonus for mending one's own wrong draft."""

    name = "self-refine-conversion"

    def challenge_rewards(self, matches: Sequence[Match], view: StepView) -> tuple[float, ...]:
        """Reward by Eq. 3 against one's own draft."""
        return conversion_rewards(matches, matches, view)
