"""GRPO with two groups of N instead of one of 2N: what a pair's smaller groups cost, without a pair.

The Agon paper does not say which of the two its GRPO row used (arXiv:2607.07690).
"""

from __future__ import annotations

from collections.abc import Sequence

from agon.methods.base import Group, StepView
from agon.methods.solo import Solo
from agon.records import Attempt


class GrpoTwoGroups(Solo):
    """GRPO whose baseline is the mean of N completions, as in a pair's streams."""

    name = "grpo-two-groups"

    def groups(self, attempts: Sequence[Attempt], view: StepView) -> tuple[Group, ...]:
        """Make two groups of a problem's drafts: the first N and the last N."""
        half = len(attempts) // 2
        return tuple(Group(tuple(part), self.rewards(part, view)) for part in (attempts[:half], attempts[half:]))
