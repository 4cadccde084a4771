"""What a training method decides: who plays, what each player earns, which adapter learns from what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agon.records import Attempt, Lineup, Match, Role
from agon.rewards.terms import RewardWeights


@dataclass(frozen=True, slots=True)
class Group:
    """Completions of one problem in one role, with the reward each earned. The group's mean is the baseline."""

    attempts: tuple[Attempt, ...]
    rewards: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Stream:
    """Everything one adapter learns from in one step, in one role."""

    adapter: str
    role: Role
    groups: tuple[Group, ...]

    @property
    def num_rollouts(self) -> int:
        """Completions in the stream."""
        return sum(len(group.attempts) for group in self.groups)


class Method(Protocol):
    """A training method. It keeps no state: a step's line-up is a function of the step's number."""

    @property
    def name(self) -> str:
        """The name a recipe uses."""
        ...

    @property
    def adapters(self) -> tuple[str, ...]:
        """Names of the adapters it trains."""
        ...

    def lineup(self, step: int) -> Lineup:
        """Say who drafts and who challenges in this step."""
        ...

    def matches_per_problem(self, group_size: int) -> int:
        """Say how many matches of each problem are played, so that 2N rollouts are sampled."""
        ...

    def streams(self, matches: Sequence[Sequence[Match]], lineup: Lineup, weights: RewardWeights) -> tuple[Stream, ...]:
        """Turn played matches (one inner sequence a problem) into what each adapter learns from."""
        ...
