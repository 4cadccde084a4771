"""A training method of your own, in one file: exchange with a bonus for hard problems.

Agon's bonus asks whether *the draft that was read* was wrong. Here every right challenge of a problem earns the share of wrong drafts
among all of the problem's drafts. So a hard problem weighs more, as it does in Agon, but within a problem nobody gains by being right
where this one rival was wrong. Under `train.advantage = "group_std"` a factor that is the same for the whole group cancels; use
`group_mean` or `batch_std` to feel it.

    PYTHONPATH=examples agon train quickstart-agon --set train.method=own_method:HardProblems --out runs/hard
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from agon.methods.base import StepView
from agon.methods.exchange import Exchange, cooperative_rewards
from agon.records import Match


class HardProblems(Exchange):
    """Cooperative exchange whose right challenges earn more on problems that are often missed."""

    name = "hard-problems"
    fixed = MappingProxyType({"advantage": "group_mean"})

    def challenge_rewards(self, matches: Sequence[Match], view: StepView) -> tuple[float, ...]:
        """Reward by Eq. 2, and by `reward.conversion` times the share of wrong drafts where the answer is right."""
        wrong_share = sum(not match.draft.is_correct for match in matches) / len(matches)
        bonus = view.weights.conversion * wrong_share
        return tuple(
            reward + bonus * match.final.is_correct
            for reward, match in zip(cooperative_rewards(matches, view), matches, strict=True)
        )
