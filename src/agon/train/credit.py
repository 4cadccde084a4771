"""From what a stream earned to what its adapter learns: rewards become advantages, attempts become samples."""

from __future__ import annotations

from typing import NamedTuple

from agon.learner.advantages import Credit, RewardGroup, Scale, assign_advantages
from agon.learner.packing import Sample
from agon.methods.base import Group, Stream
from agon.records import Signal


class Credited(NamedTuple):
    """The samples of a stream, group by group, and the advantages they were given."""

    samples: list[Sample]
    credit: Credit


def credit_stream(stream: Stream, *, scale: Scale, mask_truncated: bool, signal: Signal = "correctness") -> Credited:
    """Normalise a stream's rewards within its own groups and lay its attempts out for the learner.

    `signal` is the method's: what a group must differ in to be learned from.

    A completion whose checker failed is in no mean and in no loss; so is a truncated one if `mask_truncated`. All else that is not
    right is trained on as wrong.
    """
    groups = [reward_group(group, mask_truncated=mask_truncated) for group in stream.groups]
    credit = assign_advantages(groups, scale, signal=signal)
    samples = [
        Sample(
            prompt_ids=attempt.prompt.token_ids,
            completion_ids=attempt.completion.token_ids,
            behavior_logprobs=attempt.completion.logprobs,
            advantage=advantage,
            is_masked=not is_learned,
        )
        for group, given in zip(stream.groups, credit.groups, strict=True)
        for attempt, advantage, is_learned in zip(group.attempts, given.advantages, given.is_learned, strict=True)
    ]
    return Credited(samples, credit)


def reward_group(group: Group, *, mask_truncated: bool) -> RewardGroup:
    """Return what the advantages of a group are computed from."""
    return RewardGroup(
        rewards=group.rewards,
        is_correct=group.is_right or [attempt.is_correct for attempt in group.attempts],
        format_scores=[attempt.format_score for attempt in group.attempts],
        is_masked=[
            attempt.verdict.is_masked or (mask_truncated and attempt.completion.is_truncated)
            for attempt in group.attempts
        ],
        strata=group.strata,
        factors=group.factors,
    )
