"""GRPO: one adapter, one group of 2N completions a problem, no opponent. The baseline at the pair's rollout budget.

Paper: DeepSeekMath, arXiv:2402.03300.
"""

from __future__ import annotations

from collections.abc import Sequence

from agon.methods.base import Group, Stream
from agon.records import Lineup, Match
from agon.rewards.terms import RewardWeights, plain_reward


class Grpo:
    """Trains adapter A alone on 2N drafts of each problem."""

    name = "grpo"
    adapters = ("A",)

    def lineup(self, step: int) -> Lineup:
        """A drafts, nobody challenges."""
        return Lineup(drafters=("A",))

    def matches_per_problem(self, group_size: int) -> int:
        """Play 2N matches of one rollout."""
        return 2 * group_size

    def streams(self, matches: Sequence[Sequence[Match]], lineup: Lineup, weights: RewardWeights) -> tuple[Stream, ...]:
        """Make one group of each problem's drafts."""
        groups = tuple(draft_group(of_problem, weights) for of_problem in matches)
        return (Stream(adapter="A", role="drafter", groups=groups),)


def draft_group(matches: Sequence[Match], weights: RewardWeights) -> Group:
    """Reward the drafts of one problem by Eq. 2; there is no opponent term in a drafter's reward."""
    attempts = tuple(match.draft for match in matches)
    rewards = tuple(plain_reward(attempt.is_correct, attempt.format_score, weights) for attempt in attempts)
    return Group(attempts, rewards)
