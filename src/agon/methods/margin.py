"""Margin: the challenger earns the difference in correctness, which is a baseline rather than an incentive (docs/methods.md).

Paper: ablation of Agon, arXiv:2607.07690. Whether it scales the margin by 2, or adds format, is not known; here it is
`reward.correctness` times the margin, and format as ever.
"""

from __future__ import annotations

from collections.abc import Sequence

from agon.methods.base import StepView
from agon.methods.exchange import Exchange, challenge_of
from agon.records import Match
from agon.rewards.terms import margin


class Margin(Exchange):
    """Exchange paid by c(b) - c(a)."""

    name = "margin"

    def challenge_rewards(self, matches: Sequence[Match], view: StepView) -> tuple[float, ...]:
        """Reward by the margin over the draft read.

        A right draft of which nothing was left to show counts in full: withholding empties the summaries of the best drafts. One
        without a verdict counts as wrong.
        """
        weights = view.weights
        return tuple(
            weights.correctness * margin(challenge.is_correct, match.draft.is_correct)
            + weights.format * challenge.format_score
            for match, challenge in ((match, challenge_of(match)) for match in matches)
        )
