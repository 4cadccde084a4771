"""What a training method decides: who plays, what each player earns, which adapter learns from what.

A new method is one file: a subclass of `BaseMethod` (or of `Solo` or `Exchange` beside it), named in a recipe as `module:NAME` or, for
those that agon brings, in `agon.methods.registry`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from agon.records import ADAPTERS, Attempt, Lineup, Match, Role, Signal
from agon.rewards.terms import RewardWeights


@dataclass(frozen=True, slots=True)
class Group:
    """Completions of one problem in one role, with the reward each earned. The group's mean is the baseline.

    `strata` are labels within which the advantage `stratified` takes its baseline (for a challenger: whether the draft it read was
    right). `is_right` is what the filter takes for correctness where that is not the verdict (a coin). `factors` multiply the
    group's positive and negative advantages.
    """

    attempts: tuple[Attempt, ...]
    rewards: tuple[float, ...]
    strata: tuple[int, ...] | None = None
    is_right: tuple[bool, ...] | None = None
    factors: tuple[float, float] = (1.0, 1.0)


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


@dataclass(frozen=True, slots=True)
class StepView:
    """What a method may know of the step that it rewards. `max_tokens` is the cap on a completion in each role."""

    step: int
    seed: int
    lineup: Lineup
    weights: RewardWeights
    max_tokens: Mapping[Role, int] = field(default_factory=dict[Role, int])


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Before the step the frozen adapter `name` becomes a copy of `source` as it stands."""

    name: str
    source: str


class BaseMethod(ABC):
    """A training method. It keeps no state: a step's line-up is a function of the step's number.

    `adapters` are those of the deployed pair (or the one), `fixed` the train settings that the method stands for (its loss, its
    normaliser), `signal` what a group must differ in to be learned from (`agon.learner.advantages.has_signal`). `resamples` draws
    further problems until a step is full of groups with a signal, every rollout charged to the budget.
    """

    name: str
    adapters: tuple[str, ...] = ADAPTERS
    fixed: Mapping[str, Any] = MappingProxyType({})
    signal: Signal = "correctness"
    resamples: bool = False

    @property
    def has_pair(self) -> bool:
        """Whether two adapters are deployed."""
        return len(self.adapters) == len(ADAPTERS)

    @abstractmethod
    def lineup(self, step: int) -> Lineup:
        """Say who drafts and who challenges in this step."""

    @abstractmethod
    def matches_per_problem(self, group_size: int) -> int:
        """Say how many matches of each problem are played, so that 2N rollouts are sampled."""

    @abstractmethod
    def streams(self, matches: Sequence[Sequence[Match]], view: StepView) -> tuple[Stream, ...]:
        """Turn played matches (one inner sequence a problem) into what each adapter learns from."""

    def snapshots(self, step: int) -> tuple[Snapshot, ...]:
        """Say which frozen copies are renewed before this step. They may draft, and never learn."""
        return ()
