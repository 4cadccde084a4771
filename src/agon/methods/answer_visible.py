"""Answer visible: the challenger sees the draft's answer while training. What withholding is for.

Control of Agon, arXiv:2607.07690.
"""

from __future__ import annotations

from collections.abc import Sequence

from agon.methods.base import StepView
from agon.methods.exchange import Exchange, conversion_rewards
from agon.records import Match


class AnswerVisible(Exchange):
    """Agon without withholding."""

    name = "answer-visible"
    shows_answer = True

    def challenge_rewards(self, matches: Sequence[Match], view: StepView) -> tuple[float, ...]:
        """Reward by Eq. 3 against the draft that the challenge read."""
        return conversion_rewards(matches, matches, view)
