"""Rewards of groups turned into advantages, in float64.

Groups without a learning signal are dropped and counted, not merely given zeros: their tokens would otherwise shrink the step
(a token-mean loss divides by them) by as much as the share of dead groups, which differs between methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Scale = Literal["group_std", "group_mean", "batch_std"]
Signal = Literal["correctness", "reward"]

# Added to a standard deviation, as stock TRL has it (ALGORITHMS 1.8).
STD_EPSILON = 1e-4
# A spread below this (relative to the rewards' size) is rounding, not signal: 0.1 + 0.2 and 0.3 are one reward.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class RewardGroup:
    """Rewards of the completions of one prompt, and what the filter looks at. `is_masked` marks what must not be learned from."""

    rewards: Sequence[float]
    is_correct: Sequence[bool]
    format_scores: Sequence[float]
    is_masked: Sequence[bool]


@dataclass(frozen=True, slots=True)
class GroupAdvantages:
    """One advantage a completion. Nothing is to be learned where `is_learned` is false (the advantage there is 0)."""

    advantages: tuple[float, ...]
    is_learned: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Credit:
    """Advantages of a step's groups, in order, and what was left out.

    `num_dead_groups` had no signal, `num_masked` completions were masked one by one.
    """

    groups: tuple[GroupAdvantages, ...]
    num_dead_groups: int
    num_masked: int

    @property
    def dead_group_share(self) -> float:
        """Groups without a signal / groups."""
        return self.num_dead_groups / len(self.groups) if self.groups else 0.0


def assign_advantages(
    groups: Sequence[RewardGroup],
    scale: Scale,
    *,
    signal: Signal = "correctness",
    ddof: int = 1,
    epsilon: float = STD_EPSILON,
) -> Credit:
    """Credit each completion with its reward minus its group's mean, divided as `scale` says.

    `group_std` divides by the group's own standard deviation, `batch_std` by that of all rewards that are learned from, across
    groups (as stock TRL has it), `group_mean` by nothing. Masked completions enter no mean and no deviation. `ddof` is 1 for the
    sample and 0 for the population deviation.

    Units: reward points in; standard deviations out, or reward points for `group_mean`.
    Paper: Agon, arXiv:2607.07690, eq. 1 (group_std); Dr. GRPO, arXiv:2503.20783 (group_mean).
    """
    rewards = [np.asarray(group.rewards, dtype=np.float64) for group in groups]
    learned = [np.logical_not(np.asarray(group.is_masked, dtype=bool)) & has_signal(group, signal) for group in groups]
    kept = [values[mask] for values, mask in zip(rewards, learned, strict=True)]
    batch_std = _std(np.concatenate([*kept, np.zeros(0)]), ddof)
    results: list[GroupAdvantages] = []
    for values, mask, own in zip(rewards, learned, kept, strict=True):
        advantages = np.zeros(len(values))
        if mask.any():
            divisors = {"group_std": _std(own, ddof) + epsilon, "batch_std": batch_std + epsilon, "group_mean": 1.0}
            advantages[mask] = (own - own.mean()) / divisors[scale]
        results.append(GroupAdvantages(tuple(advantages.tolist()), tuple(mask.tolist())))
    return Credit(
        groups=tuple(results),
        num_dead_groups=sum(not mask.any() for mask in learned),
        num_masked=sum(int(np.count_nonzero(group.is_masked)) for group in groups),
    )


def has_signal(group: RewardGroup, signal: Signal = "correctness") -> bool:
    """Tell whether anything can be learned from a group: at least two completions that are not masked and differ.

    By `correctness`, they must differ in that or in format: among answers that are all right, a bonus for the rival's failures
    would push right answers down (ALGORITHMS 12.5). By `reward` any difference will do (methods with a length term).
    """
    kept = np.logical_not(np.asarray(group.is_masked, dtype=bool))
    if np.count_nonzero(kept) < 2 or not _differs(group.rewards, kept):
        return False
    return signal == "reward" or _differs(group.is_correct, kept) or _differs(group.format_scores, kept)


def _differs(values: Sequence[float] | Sequence[bool], kept: NDArray[np.bool_]) -> bool:
    numbers = np.asarray(values, dtype=np.float64)[kept]
    return bool(np.ptp(numbers) > _ROUNDING * max(1.0, float(np.abs(numbers).max())))


def _std(values: NDArray[np.float64], ddof: int) -> float:
    # Two passes: E[x²] - E[x]² in one pass cancels, and gives advantages of thousands.
    if len(values) <= ddof:
        return 0.0
    return float(np.sqrt(np.square(values - values.mean()).sum() / (len(values) - ddof)))
