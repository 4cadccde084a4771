"""Frozen opponent: A never learns and drafts in every step, B challenges and learns in every step.

Tests whether a rival that grows with its challenger matters. A starts with a zero update, so it drafts as the base does. Its drafts
are sampled, and charged to the budget.
"""

from __future__ import annotations

from collections.abc import Sequence

from agon.methods.base import StepView
from agon.methods.exchange import Exchange, conversion_rewards
from agon.records import Match


class FrozenOpponent(Exchange):
    """Agon's challenger against a rival that stays as it was."""

    name = "frozen-opponent"
    learned = ("challenger",)

    def players(self, step: int) -> tuple[str, str]:
        """A drafts, B challenges."""
        return "A", "B"

    def challenge_rewards(self, matches: Sequence[Match], view: StepView) -> tuple[float, ...]:
        """Reward by Eq. 3 against the draft that the challenge read."""
        return conversion_rewards(matches, matches, view)
