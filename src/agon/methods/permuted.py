"""Permuted bonus: the rival of challenge i is draft i+1. Reward scale and difficulty as in Agon, the pairing broken.

A fixed shift leaves no challenge with its own draft; a random permutation would leave one in N.
"""

from __future__ import annotations

from collections.abc import Sequence

from agon.methods.base import StepView
from agon.methods.exchange import Exchange, conversion_rewards
from agon.records import Match


class Permuted(Exchange):
    """Agon with the bonus paid over another match's draft."""

    name = "permuted"

    def challenge_rewards(self, matches: Sequence[Match], view: StepView) -> tuple[float, ...]:
        """Reward by Eq. 3 against the draft of the next match."""
        return conversion_rewards(matches, [*matches[1:], *matches[:1]], view)
