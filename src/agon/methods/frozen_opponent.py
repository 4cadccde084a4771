"""Frozen opponent: A never learns and drafts in every step, B challenges and learns in every step.

Tests whether a rival that grows with its challenger matters. A starts with a zero update, so it drafts as the base does. Its drafts
are sampled, and charged to the budget.
"""

from __future__ import annotations

from agon.methods.agon import Agon


class FrozenOpponent(Agon):
    """Agon's challenger against a rival that stays as it was."""

    name = "frozen-opponent"
    learned = ("challenger",)

    def players(self, step: int) -> tuple[str, str]:
        """A drafts, B challenges."""
        return "A", "B"
