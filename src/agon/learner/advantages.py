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

from agon.records import Signal

Scale = Literal["group_std", "group_mean", "batch_std", "stratified", "none"]
_Mask = NDArray[np.bool_]
_Floats = NDArray[np.float64]

# Added to a standard deviation, as stock TRL has it.
STD_EPSILON = 1e-4
# A spread below this (relative to the rewards' size) is rounding, not signal: 0.1 + 0.2 and 0.3 are one reward.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class RewardGroup:
    """Rewards of the completions of one prompt, and what the filter looks at. `is_masked` marks what must not be learned from.

    `strata` are labels that share a baseline under `stratified`; None is one stratum. `factors` multiply the group's positive and
    its negative advantages.
    """

    rewards: Sequence[float]
    is_correct: Sequence[bool]
    format_scores: Sequence[float]
    is_masked: Sequence[bool]
    strata: Sequence[int] | None = None
    factors: tuple[float, float] = (1.0, 1.0)


@dataclass(frozen=True, slots=True)
class GroupAdvantages:
    """One advantage a completion. Nothing is to be learned where `is_learned` is false (the advantage there is 0)."""

    advantages: tuple[float, ...]
    is_learned: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Credit:
    """Advantages of a step's groups, in order, and what was left out.

    `num_dead_groups` had no signal, `num_masked` completions were masked one by one. `num_uniform` groups were all right or all
    wrong, and of one format: without a bonus or a length term all their rewards are equal. In `num_revived` of these the rewards
    differ all the same (0 under `none`, where nothing has to differ). Whether those are learned from is the method's signal: by
    correctness they stay dead.
    """

    groups: tuple[GroupAdvantages, ...]
    num_dead_groups: int
    num_masked: int
    num_uniform: int = 0
    num_revived: int = 0

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
    groups (as stock TRL has it), `group_mean` by nothing. `stratified` subtracts the mean of the completion's stratum and divides by
    the group's pooled deviation around these means; the filter looks at each stratum by itself, so that a stratum of one is never
    learned from. `none` credits the rewards themselves and learns from all that are not 0, whatever the group looks like.
    Masked completions enter no mean and no deviation. `ddof` is 1 for the sample and 0 for the population deviation.

    Dividing by each stratum's own deviation would take the conversion bonus out: it is a constant factor within a stratum, and
    one deviation a stratum cancels it (docs/methods.md).

    Units: reward points in; standard deviations out, or reward points for `group_mean` and `none`.
    Paper: Agon, arXiv:2607.07690, eq. 1 (group_std); Dr. GRPO, arXiv:2503.20783 (group_mean).
    """
    rewards = [np.asarray(group.rewards, dtype=np.float64) for group in groups]
    parts = [_learned_parts(group, scale, signal) for group in groups]
    kept = [values[_union(own, len(values))] for values, own in zip(rewards, parts, strict=True)]
    batch_std = _std(np.concatenate([*kept, np.zeros(0)]), ddof)
    results: list[GroupAdvantages] = []
    for group, values, own in zip(groups, rewards, parts, strict=True):
        divisor = _divisor(values, own, scale, ddof=ddof, epsilon=epsilon, batch_std=batch_std)
        advantages = np.zeros(len(values))
        for part in own:
            centre = 0.0 if scale == "none" else values[part].mean()
            advantages[part] = (values[part] - centre) / divisor
        advantages *= np.where(advantages > 0.0, *group.factors)
        learned = _union(own, len(values))
        results.append(GroupAdvantages(tuple(advantages.tolist()), tuple(learned.tolist())))
    uniform = [group for group in groups if _is_uniform(group)]
    revived = [group for group in uniform if scale != "none" and _differs(group.rewards, _unmasked(group))]
    return Credit(
        groups=tuple(results),
        num_dead_groups=sum(not own for own in parts),
        num_masked=sum(int(np.count_nonzero(group.is_masked)) for group in groups),
        num_uniform=len(uniform),
        num_revived=len(revived),
    )


def has_signal(group: RewardGroup, signal: Signal = "correctness") -> bool:
    """Tell whether anything can be learned from a group: at least two completions that are not masked and differ.

    By `correctness`, they must differ in that or in format: among answers that are all right, a bonus for the rival's failures
    would push right answers down (docs/methods.md). By `reward` any difference in reward will do among answers of which one at least
    is right (methods with a length term); among wrong ones, being short is nothing to learn.
    """
    return _has_signal(group, _unmasked(group), signal)


def _has_signal(group: RewardGroup, kept: _Mask, signal: Signal) -> bool:
    if np.count_nonzero(kept) < 2 or not _differs(group.rewards, kept):
        return False
    if signal == "reward" and bool(np.asarray(group.is_correct, dtype=bool)[kept].any()):
        return True
    return _differs(group.is_correct, kept) or _differs(group.format_scores, kept)


def _learned_parts(group: RewardGroup, scale: Scale, signal: Signal) -> list[_Mask]:
    """Return which completions share a baseline, one mask for each part of the group that is learned from."""
    kept = _unmasked(group)
    if scale == "none":
        paid = kept & (np.asarray(group.rewards, dtype=np.float64) != 0.0)
        return [paid] if paid.any() else []
    if scale != "stratified" or group.strata is None:
        return [kept] if _has_signal(group, kept, signal) else []
    labels = np.asarray(group.strata)
    parts = [kept & (labels == label) for label in np.unique(labels)]
    return [part for part in parts if _has_signal(group, part, signal)]


def _divisor(
    values: _Floats, parts: Sequence[_Mask], scale: Scale, *, ddof: int, epsilon: float, batch_std: float
) -> float:
    if scale in ("group_mean", "none"):
        return 1.0
    if scale == "batch_std":
        return batch_std + epsilon
    return _pooled_std([values[part] for part in parts], ddof) + epsilon


def _is_uniform(group: RewardGroup) -> bool:
    kept = _unmasked(group)
    if np.count_nonzero(kept) < 2:
        return False
    return not (_differs(group.is_correct, kept) or _differs(group.format_scores, kept))


def _unmasked(group: RewardGroup) -> _Mask:
    return np.logical_not(np.asarray(group.is_masked, dtype=bool))


def _union(parts: Sequence[_Mask], size: int) -> _Mask:
    return np.logical_or.reduce([np.zeros(size, dtype=bool), *parts])


def _differs(values: Sequence[float] | Sequence[bool], kept: _Mask) -> bool:
    numbers = np.asarray(values, dtype=np.float64)[kept]
    return bool(np.ptp(numbers) > _ROUNDING * max(1.0, float(np.abs(numbers).max())))


def _std(values: _Floats, ddof: int) -> float:
    return _pooled_std([values], ddof)


def _pooled_std(parts: Sequence[_Floats], ddof: int) -> float:
    """Return the standard deviation around the parts' own means; `ddof` is lost for each part."""
    # Two passes: E[x²] - E[x]² in one pass cancels, and gives advantages of thousands.
    freedom = sum(len(part) - ddof for part in parts)
    if freedom <= 0:
        return 0.0
    return float(np.sqrt(sum(np.square(part - part.mean()).sum() for part in parts if len(part)) / freedom))
