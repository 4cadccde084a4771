"""The two methods with an exchange: a drafter and a challenger, one group each, roles swapping every step.

Paper: Agon, arXiv:2607.07690 (Algorithm 1, Eq. 2 and 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agon.errors import AgonError
from agon.methods.base import Group, Stream
from agon.methods.grpo import draft_group
from agon.records import Lineup, Match
from agon.rewards.terms import RewardWeights, conversion_bonus, plain_reward


@dataclass(frozen=True, slots=True)
class Exchange:
    """Draft and challenge with alternating roles; `has_bonus` makes the exchange a competition."""

    name: str
    has_bonus: bool
    adapters: tuple[str, str] = ("A", "B")

    def lineup(self, step: int) -> Lineup:
        """A drafts in even steps (step 0 first), B in odd ones."""
        drafter, challenger = self.adapters if step % 2 == 0 else self.adapters[::-1]
        return Lineup(drafters=(drafter,), has_challenge=True, challenger=challenger)

    def matches_per_problem(self, group_size: int) -> int:
        """Play N matches of two rollouts."""
        return group_size

    def streams(self, matches: Sequence[Sequence[Match]], lineup: Lineup, weights: RewardWeights) -> tuple[Stream, ...]:
        """Normalise drafts and challenges apart: one stream for each adapter."""
        drafter, challenger = lineup.drafters[0], lineup.challenger
        if drafter is None or challenger is None:
            raise AgonError(
                f"{self.name} needs two trained adapters, but the line-up is {drafter} against {challenger}"
            )
        drafts = tuple(draft_group(of_problem, weights) for of_problem in matches)
        challenges = tuple(challenge_group(of_problem, weights, has_bonus=self.has_bonus) for of_problem in matches)
        return (
            Stream(adapter=drafter, role="drafter", groups=drafts),
            Stream(adapter=challenger, role="challenger", groups=challenges),
        )


def challenge_group(matches: Sequence[Match], weights: RewardWeights, *, has_bonus: bool) -> Group:
    """Reward the challenges of one problem by Eq. 2, or with the bonus by Eq. 3."""
    attempts = tuple(match.attempts[-1] for match in matches)
    rewards = tuple(_challenge_reward(match, weights, has_bonus=has_bonus) for match in matches)
    return Group(attempts, rewards)


def _challenge_reward(match: Match, weights: RewardWeights, *, has_bonus: bool) -> float:
    challenge, draft = match.attempts[-1], match.draft
    reward = plain_reward(challenge.is_correct, challenge.format_score, weights)
    # A rival without a verdict or without a summary was not beaten: it pays no bonus.
    was_rival = not draft.verdict.is_masked and not match.summaries[0].is_empty
    if has_bonus and was_rival:
        reward += conversion_bonus(challenge.is_correct, draft.is_correct, weights)
    return reward
