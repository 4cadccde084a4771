"""The line that a step leaves in metrics.jsonl. Names, units and formulas: `agon.metrics`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agon.config import TrainSettings
from agon.learner.advantages import Credit
from agon.learner.optimizer import learning_rate
from agon.learner.report import UpdateReport
from agon.match.rates import exchange_rates
from agon.methods.base import BaseMethod, Group, StepView, Stream
from agon.model.divergence import update_distance
from agon.model.pair import AdapterPair
from agon.records import Attempt, Match, Role
from agon.rewards.terms import RewardWeights, plain_reward
from agon.train.state import Progress
from agon.train.update import Learned, credit
from agon.train.wave import Played, count_rollouts

# The epsilon beside a standard deviation moves an advantage by less than this; no bonus moves one by so little.
_ROUNDING = 1e-3
_FAMILY: Mapping[Role, str] = {"drafter": "draft", "challenger": "challenge"}


def metrics_row(
    view: StepView,
    played: Played,
    learned: Sequence[Learned],
    *,
    method: BaseMethod,
    own: TrainSettings,
    pair: AdapterPair,
    before: Progress,
    after: Progress,
) -> dict[str, Any]:
    """Return a step's numbers. A number without a value in this step is None; one that the method has no use for is left out.

    `before` and `after` are where the training stood before the step and stands after it.
    """
    row: dict[str, Any] = {
        "step": view.step,
        "drafter": view.lineup.drafters[0],
        "learning_rate": learning_rate(own, step=before.position(own), total_steps=own.steps),
        "rollouts_per_problem": count_rollouts(played.matches) / len(played.matches),
        "problems_consumed": after.problems_consumed,
        "rollouts_generated": after.rollouts_generated,
        "rollouts_discarded": after.rollouts_discarded,
    }
    sampled = _sampled_streams(view, played, learned, method=method, own=own)
    reports = {item.stream.role: item.report for item in learned}
    for role, family in _FAMILY.items():
        attempts = _attempts(played.matches, role)
        numbers: dict[str, Any] = _attempt_numbers(attempts) if attempts else {}
        if role in sampled:
            numbers |= {**_stream_numbers(*sampled[role]), **_update_numbers(reports[role])}
        row |= {f"{family}/{name}": value for name, value in numbers.items()}
    if view.lineup.has_challenge:
        challenger = sampled.get("challenger")
        row |= _match_numbers(played.matches)
        row |= _advantage_numbers(challenger)
        row["match/bonus_effective_fraction"] = (
            None if challenger is None else bonus_effective_fraction(*challenger, method, own=own, weights=view.weights)
        )
    if method.has_pair:
        row["pair/distance"] = update_distance(pair)
    return row


_Sampled = tuple[Stream, Credit]


def _sampled_streams(
    view: StepView, played: Played, learned: Sequence[Learned], *, method: BaseMethod, own: TrainSettings
) -> dict[Role, _Sampled]:
    """Return every learned role's groups and their credit, those of discarded problems included."""
    if not played.discarded:
        return {item.stream.role: (item.stream, item.credited.credit) for item in learned}
    streams = method.streams(played.matches, view)
    return {stream.role: (stream, credit(stream, method, own).credit) for stream in streams}


def _attempts(matches: Sequence[Sequence[Match]], role: Role) -> list[Attempt]:
    return [
        attempt for of_problem in matches for match in of_problem for attempt in match.attempts if attempt.role == role
    ]


def _attempt_numbers(attempts: Sequence[Attempt]) -> dict[str, float | None]:
    graded = [attempt for attempt in attempts if not attempt.verdict.is_masked]
    outcomes = [attempt.verdict.outcome for attempt in attempts]
    count, num_tokens = len(attempts), sum(attempt.completion.num_tokens for attempt in attempts)
    return {
        "accuracy": sum(attempt.is_correct for attempt in graded) / len(graded) if graded else None,
        "format_mean": sum(attempt.format_score for attempt in attempts) / count,
        "tokens_mean": num_tokens / count,
        "tokens_generated": num_tokens,
        "truncated_share": sum(attempt.completion.is_truncated for attempt in attempts) / count,
        "unparsed_share": outcomes.count("unparsed") / count,
        "error_share": outcomes.count("error") / count,
    }


def _stream_numbers(stream: Stream, earned: Credit) -> dict[str, float | None]:
    rewards = [reward for group in stream.groups for reward in group.rewards]
    return {
        "reward_mean": _mean(rewards),
        "dead_group_share": earned.dead_group_share,
        "revived_group_share": earned.num_revived / len(earned.groups) if earned.groups else 0.0,
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


def _match_numbers(matches: Sequence[Sequence[Match]]) -> dict[str, float | None]:
    rates = exchange_rates(match for of_problem in matches for match in of_problem)
    return {
        "match/conversion": rates.conversion,
        "match/regression": rates.regression,
        "match/copy_rate": rates.copy,
        "match/leak_rate": rates.leak,
        "match/empty_summary_share": rates.empty,
        "match/withheld_mean": rates.withheld_mean,
    }


def _advantage_numbers(challenger: _Sampled | None) -> dict[str, float | None]:
    """Return the mean size of a challenge's advantage by what became of the draft, over the challenges that are learned from."""
    sizes: dict[int, list[float]] = {0: [], 1: []}
    if challenger is not None:
        for group, given in zip(challenger[0].groups, challenger[1].groups, strict=True):
            labels = group.strata or ()
            for label, advantage, is_learned in zip(labels, given.advantages, given.is_learned, strict=False):
                if is_learned and label in sizes:
                    sizes[label].append(abs(advantage))
    return {"match/advantage_draft_wrong": _mean(sizes[0]), "match/advantage_draft_right": _mean(sizes[1])}


def bonus_effective_fraction(
    stream: Stream, earned: Credit, method: BaseMethod, *, own: TrainSettings, weights: RewardWeights
) -> float | None:
    """Return the share of a challenger's groups whose advantages differ from those that cooperative exchange would give.

    All-right, all-wrong and uniform groups cancel the bonus; early in training few groups feel it.
    """
    without = replace(stream, groups=tuple(_without_bonus(group, weights) for group in stream.groups))
    pairs = zip(earned.groups, credit(without, method, own).credit.groups, strict=True)
    differing = [
        any(abs(x - y) > _ROUNDING for x, y in zip(one.advantages, other.advantages, strict=True))
        for one, other in pairs
    ]
    return _mean(differing)


def _without_bonus(group: Group, weights: RewardWeights) -> Group:
    # What the method took for right, which need not be the verdict.
    rights = group.is_right or [attempt.is_correct for attempt in group.attempts]
    rewards = tuple(
        plain_reward(is_right, attempt.format_score, weights)
        for is_right, attempt in zip(rights, group.attempts, strict=True)
    )
    return replace(group, rewards=rewards)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
