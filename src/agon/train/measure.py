"""The line that a step leaves in metrics.jsonl. Names, units and formulas: `agon.metrics`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agon.learner.advantages import Scale, assign_advantages
from agon.learner.report import UpdateReport
from agon.match.rates import exchange_rates
from agon.methods.base import Group, Stream
from agon.model.divergence import update_distance
from agon.model.pair import AdapterPair
from agon.records import Lineup, Match, Role
from agon.rewards.terms import RewardWeights, plain_reward
from agon.train.credit import Credited, reward_group

# The epsilon beside a standard deviation moves an advantage by less than this; no bonus moves one by so little.
_ROUNDING = 1e-3
_FAMILY: Mapping[Role, str] = {"drafter": "draft", "challenger": "challenge"}


def metrics_row(
    step: int,
    lineup: Lineup,
    matches: Sequence[Sequence[Match]],
    learned: Sequence[tuple[Stream, Credited, UpdateReport]],
    *,
    pair: AdapterPair,
    weights: RewardWeights,
    scale: Scale,
    mask_truncated: bool,
) -> dict[str, Any]:
    """Return a step's numbers. A number without a value in this step is None."""
    row: dict[str, Any] = {"step": step, "drafter": lineup.drafters[0], "learning_rate": learned[0][2].learning_rate}
    row["rollouts_per_problem"] = sum(stream.num_rollouts for stream, _, _ in learned) / len(matches)
    for stream, credited, report in learned:
        family = _FAMILY[stream.role]
        numbers = {**_stream_numbers(stream, credited), **_update_numbers(report)}
        row |= {f"{family}/{name}": value for name, value in numbers.items()}
    if lineup.has_challenge:
        stream, credited, _ = next(item for item in learned if item[0].role == "challenger")
        effective = bonus_effective_fraction(
            stream, credited, weights=weights, scale=scale, mask_truncated=mask_truncated
        )
        row |= _match_numbers(matches, effective)
    row["pair/distance"] = update_distance(pair)
    return row


def _stream_numbers(stream: Stream, credited: Credited) -> dict[str, float | None]:
    attempts = [attempt for group in stream.groups for attempt in group.attempts]
    rewards = [reward for group in stream.groups for reward in group.rewards]
    graded = [attempt for attempt in attempts if not attempt.verdict.is_masked]
    outcomes = [attempt.verdict.outcome for attempt in attempts]
    count = len(attempts)
    return {
        "accuracy": sum(attempt.is_correct for attempt in graded) / len(graded) if graded else None,
        "reward_mean": sum(rewards) / count,
        "format_mean": sum(attempt.format_score for attempt in attempts) / count,
        "tokens_mean": sum(attempt.completion.num_tokens for attempt in attempts) / count,
        "truncated_share": sum(attempt.completion.is_truncated for attempt in attempts) / count,
        "unparsed_share": outcomes.count("unparsed") / count,
        "error_share": outcomes.count("error") / count,
        "dead_group_share": credited.credit.dead_group_share,
    }


def _update_numbers(report: UpdateReport) -> dict[str, Any]:
    return {
        "entropy": report.entropy,
        "loss": report.loss,
        "grad_norm": report.grad_norm,
        "logprob_gap_mean": report.logprob_gap_mean,
        "logprob_gap_max": report.logprob_gap_max,
        "importance_mean": report.importance_mean,
        "clip_share": report.clip_share,
        "importance_by_length": report.importance_by_length,
        "tokens_learned": report.num_tokens_learned,
    }


def _match_numbers(matches: Sequence[Sequence[Match]], bonus_effective: float) -> dict[str, float | None]:
    rates = exchange_rates(match for of_problem in matches for match in of_problem)
    return {
        "match/conversion": rates.conversion,
        "match/regression": rates.regression,
        "match/copy_rate": rates.copy,
        "match/leak_rate": rates.leak,
        "match/empty_summary_share": rates.empty,
        "match/bonus_effective_fraction": bonus_effective,
        "match/withheld_mean": rates.withheld_mean,
    }


def bonus_effective_fraction(
    stream: Stream, credited: Credited, *, weights: RewardWeights, scale: Scale, mask_truncated: bool
) -> float:
    """Return the share of a challenger's groups whose advantages differ from those that cooperative exchange would give.

    All-right, all-wrong and uniform groups cancel the bonus; early in training few groups feel it (QUICKSTART).
    """
    without = [_without_bonus(group, weights) for group in stream.groups]
    plain = assign_advantages([reward_group(group, mask_truncated=mask_truncated) for group in without], scale)
    pairs = zip(credited.credit.groups, plain.groups, strict=True)
    differing = [
        any(abs(x - y) > _ROUNDING for x, y in zip(own.advantages, other.advantages, strict=True))
        for own, other in pairs
    ]
    return sum(differing) / len(differing)


def _without_bonus(group: Group, weights: RewardWeights) -> Group:
    rewards = tuple(plain_reward(attempt.is_correct, attempt.format_score, weights) for attempt in group.attempts)
    return Group(group.attempts, rewards)
