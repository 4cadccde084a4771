"""Length tie-break: Agon, and a little more for a right challenge that is shorter than the right draft it read.

Groups whose answers are all right are kept, for there the tie-break speaks; there the conversion bonus acts as well, and pushes
right answers down that met a right rival (docs/methods.md).
Paper: arXiv:2607.07690; the size of the term is not known.
"""

from __future__ import annotations

from collections.abc import Sequence

from agon.methods.agon import Agon
from agon.methods.base import StepView
from agon.methods.exchange import challenge_of
from agon.records import Match
from agon.rewards.terms import tie_break


class TieBreak(Agon):
    """Agon with a length term where both players are right."""

    name = "tie-break"
    signal = "reward"

    def challenge_rewards(self, matches: Sequence[Match], view: StepView) -> tuple[float, ...]:
        """Reward by Eq. 3 and the tie-break against the draft that the challenge read."""
        return tuple(
            reward + _shorter(match, view)
            for reward, match in zip(super().challenge_rewards(matches, view), matches, strict=True)
        )


def _shorter(match: Match, view: StepView) -> float:
    draft, challenge = match.draft, challenge_of(match)
    return tie_break(
        challenge.is_correct,
        draft.is_correct,
        num_tokens=challenge.completion.num_tokens,
        rival_num_tokens=draft.completion.num_tokens,
        weights=view.weights,
    )
