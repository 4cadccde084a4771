"""What methods with one player share: adapter A drafts 2N times, nobody challenges."""

from __future__ import annotations

from collections.abc import Sequence

from agon.methods.base import BaseMethod, Group, StepView, Stream
from agon.records import Attempt, Lineup, Match
from agon.rewards.terms import plain_reward


class Solo(BaseMethod):
    """Trains adapter A alone on one group of 2N drafts of each problem: the pair's budget of rollouts."""

    adapters = ("A",)

    def lineup(self, step: int) -> Lineup:
        """A drafts, nobody challenges."""
        return Lineup(drafters=("A",))

    def matches_per_problem(self, group_size: int) -> int:
        """Play 2N matches of one rollout."""
        return 2 * group_size

    def streams(self, matches: Sequence[Sequence[Match]], view: StepView) -> tuple[Stream, ...]:
        """Make the groups of each problem's drafts."""
        groups = [group for of_problem in matches for group in self.groups([match.draft for match in of_problem], view)]
        return (Stream(adapter="A", role="drafter", groups=tuple(groups)),)

    def groups(self, attempts: Sequence[Attempt], view: StepView) -> tuple[Group, ...]:
        """Make one group of a problem's drafts."""
        return (Group(tuple(attempts), self.rewards(attempts, view)),)

    def rewards(self, attempts: Sequence[Attempt], view: StepView) -> tuple[float, ...]:
        """Reward the completions of one problem, as a rule each by itself (Agon, arXiv:2607.07690, Eq. 2)."""
        return plain_rewards(attempts, view)


def plain_rewards(attempts: Sequence[Attempt], view: StepView) -> tuple[float, ...]:
    """Reward each completion by itself: correctness and form (Agon, arXiv:2607.07690, Eq. 2)."""
    return tuple(plain_reward(attempt.is_correct, attempt.format_score, view.weights) for attempt in attempts)
