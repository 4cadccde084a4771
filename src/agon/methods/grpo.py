"""GRPO: one adapter, one group of 2N completions a problem, no opponent. The baseline at the pair's rollout budget.

Paper: DeepSeekMath, arXiv:2402.03300.
"""

from __future__ import annotations

from collections.abc import Sequence

from agon.methods.base import BaseMethod, Group, StepView, Stream
from agon.records import Attempt, Lineup, Match
from agon.rewards.terms import plain_reward


class Grpo(BaseMethod):
    """Trains adapter A alone on 2N drafts of each problem. Methods with one player subclass it."""

    name = "grpo"
    adapters = ("A",)

    def lineup(self, step: int) -> Lineup:
        """A drafts, nobody challenges."""
        return Lineup(drafters=("A",))

    def matches_per_problem(self, group_size: int) -> int:
        """Play 2N matches of one rollout."""
        return 2 * group_size

    def streams(self, matches: Sequence[Sequence[Match]], view: StepView) -> tuple[Stream, ...]:
        """Make one group of each problem's drafts."""
        drafts = [tuple(match.draft for match in of_problem) for of_problem in matches]
        groups = tuple(Group(attempts, self.rewards(attempts, view)) for attempts in drafts)
        return (Stream(adapter="A", role="drafter", groups=groups),)

    def rewards(self, attempts: Sequence[Attempt], view: StepView) -> tuple[float, ...]:
        """Reward the completions of one problem by Eq. 2 of the Agon paper; there is no opponent term."""
        return plain_rewards(attempts, view)


def plain_rewards(attempts: Sequence[Attempt], view: StepView) -> tuple[float, ...]:
    """Reward each completion by itself: correctness and form (Agon, arXiv:2607.07690, Eq. 2)."""
    return tuple(plain_reward(attempt.is_correct, attempt.format_score, view.weights) for attempt in attempts)
