"""The methods with an exchange: a drafter and a challenger, one group each, roles swapping every step.

Paper: Agon, arXiv:2607.07690 (Algorithm 1, Eq. 2 and 3).
"""

from __future__ import annotations

from collections.abc import Sequence

from agon.errors import AgonError
from agon.methods.base import BaseMethod, Group, StepView, Stream
from agon.methods.grpo import plain_rewards
from agon.records import Lineup, Match
from agon.rewards.terms import conversion_bonus


class Cooperative(BaseMethod):
    """Draft and challenge with alternating roles, no opponent term. Methods with two players subclass it."""

    name = "cooperative"

    def lineup(self, step: int) -> Lineup:
        """A drafts in even steps (step 0 first), B in odd ones."""
        drafter, challenger = self.adapters if step % 2 == 0 else self.adapters[::-1]
        return Lineup(drafters=(drafter,), has_challenge=True, challenger=challenger)

    def matches_per_problem(self, group_size: int) -> int:
        """Play N matches of two rollouts."""
        return group_size

    def streams(self, matches: Sequence[Sequence[Match]], view: StepView) -> tuple[Stream, ...]:
        """Normalise drafts and challenges apart: one stream for each adapter."""
        drafter, challenger = view.lineup.drafters[0], view.lineup.challenger
        if drafter is None or challenger is None:
            raise AgonError(
                f"{self.name} needs two trained adapters, but the line-up is {drafter} against {challenger}"
            )
        drafts = tuple(
            Group(tuple(match.draft for match in of_problem), self.draft_rewards(of_problem, view))
            for of_problem in matches
        )
        challenges = tuple(
            Group(
                tuple(match.attempts[-1] for match in of_problem),
                self.challenge_rewards(of_problem, view),
                strata=tuple(int(match.draft.is_correct) for match in of_problem),
            )
            for of_problem in matches
        )
        return (
            Stream(adapter=drafter, role="drafter", groups=drafts),
            Stream(adapter=challenger, role="challenger", groups=challenges),
        )

    def draft_rewards(self, matches: Sequence[Match], view: StepView) -> tuple[float, ...]:
        """Reward the drafts of one problem by Eq. 2; there is no opponent term in a drafter's reward."""
        return plain_rewards([match.draft for match in matches], view)

    def challenge_rewards(self, matches: Sequence[Match], view: StepView) -> tuple[float, ...]:
        """Reward the challenges of one problem by Eq. 2."""
        return plain_rewards([match.attempts[-1] for match in matches], view)


class Agon(Cooperative):
    """Pays a challenger that is right where its rival was wrong (Eq. 3)."""

    name = "agon"

    def challenge_rewards(self, matches: Sequence[Match], view: StepView) -> tuple[float, ...]:
        """Reward the challenges of one problem by Eq. 3."""
        plain = plain_rewards([match.attempts[-1] for match in matches], view)
        return tuple(reward + bonus_over(match, match, view) for reward, match in zip(plain, matches, strict=True))


def bonus_over(match: Match, rival: Match, view: StepView) -> float:
    """Return the conversion bonus of a match's challenge over the draft of `rival`.

    A rival without a verdict or without a summary was not beaten: it pays no bonus.
    """
    if rival.draft.verdict.is_masked or (rival.summaries and rival.summaries[0].is_empty):
        return 0.0
    return conversion_bonus(match.attempts[-1].is_correct, rival.draft.is_correct, view.weights)
