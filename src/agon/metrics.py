"""Every number of metrics.jsonl and timings.jsonl: its name, unit, formula, and what a bad value looks like.

A step writes one line. `draft/…` speaks of what the drafter sampled and learned, `challenge/…` of the challenger, `match/…` of the
two together, `pair/…` of the two adapters. A number that has no value in a step (a conversion rate when no draft was wrong) is
null; one that a method has no use for (the loss of a role that does not learn, the distance where one adapter learns) is left out.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Unit = Literal[
    "bytes",
    "count",
    "name",
    "points",
    "share",
    "tokens",
    "nats",
    "ratio",
    "norm",
    "per step",
    "loss",
    "advantage",
    "seconds",
    "tokens per second",
]


@dataclass(frozen=True, slots=True)
class Metric:
    """One number."""

    name: str
    unit: Unit
    formula: str
    bad: str

    @property
    def family(self) -> str:
        """The part before the slash: `draft`, `challenge`, `match`, `pair`, or nothing."""
        return self.name.partition("/")[0] if "/" in self.name else ""


_STEP: tuple[Metric, ...] = (
    Metric("step", "count", "number of the step", "a gap or a repeat: lines were lost or written twice"),
    Metric(
        "drafter",
        "name",
        "the adapter that drafts in this step, A or B",
        "the same letter twice running where roles swap",
    ),
    Metric("learning_rate", "per step", "learning rate of the step after warm-up and decay", "0 before the last step"),
    Metric(
        "rollouts_per_problem",
        "count",
        "completions sampled in the step / problems in the step",
        "differs between methods that are compared: their budgets are not equal",
    ),
    Metric(
        "problems_consumed",
        "count",
        "problems sampled from since the run began; one that comes again in a later epoch counts again",
        "differs at the end between runs that are compared",
    ),
    Metric(
        "rollouts_generated",
        "count",
        "completions sampled since the run began, learned from or not",
        "differs at the end between runs that are compared: their budgets are not equal",
    ),
    Metric(
        "rollouts_discarded",
        "count",
        "of rollouts_generated, those of problems without a signal that were replaced by further ones (methods that resample)",
        "close to rollouts_generated: hardly anything is learned from",
    ),
)

_STREAM: tuple[Metric, ...] = (
    Metric(
        "accuracy",
        "share",
        "correct / graded completions (checker errors left out)",
        "flat at 0 or 1: nothing to learn",
    ),
    Metric(
        "reward_mean",
        "points",
        "mean reward of the role's completions; missing where the role does not learn",
        "rises while accuracy does not: the format term is being learned",
    ),
    Metric(
        "format_mean",
        "share",
        "mean format score phi",
        "falls below 0.9 after the start: answers are no longer readable",
    ),
    Metric(
        "tokens_mean", "tokens", "sampled tokens / completions", "grows towards the cap, or collapses to a few tokens"
    ),
    Metric(
        "tokens_generated",
        "tokens",
        "completion tokens sampled in the role in the step, learned from or not",
        "grows while accuracy does not",
    ),
    Metric(
        "truncated_share",
        "share",
        "completions ended by the cap / completions",
        "above 0.05: the cap decides the reward",
    ),
    Metric(
        "unparsed_share",
        "share",
        "completions without a readable answer / completions",
        "grows: the answer format is being lost",
    ),
    Metric(
        "error_share",
        "share",
        "completions whose checker failed / completions",
        "above 0: look at the verdicts' reasons",
    ),
    Metric(
        "entropy",
        "nats",
        "mean over learned tokens of the policy's entropy",
        "falls to 0 (collapse) or climbs without end",
    ),
    Metric(
        "loss",
        "loss",
        "policy-gradient loss of the step",
        "non-finite; its size alone says little (0 on average on-policy)",
    ),
    Metric(
        "grad_norm",
        "norm",
        "norm of the adapter's gradient before clipping",
        "0 (nothing learned) or spikes of 10x its median",
    ),
    Metric(
        "dead_group_share",
        "share",
        "groups without a learning signal / groups",
        "above 0.7: larger group or other difficulty",
    ),
    Metric(
        "revived_group_share",
        "share",
        "groups all of one correctness and one format whose rewards differ all the same (by a bonus, by length) / groups",
        "large where the method learns by reward: right answers are told apart by what is beside the point",
    ),
    Metric(
        "logprob_gap_mean",
        "nats",
        "mean over tokens of |learner - engine| logprob",
        "above 0.05, or growing: engine and learner disagree, or the adapter in the engine is stale",
    ),
    Metric("logprob_gap_max", "nats", "largest |learner - engine| logprob of a token", "above 1 in float32"),
    Metric(
        "importance_mean",
        "ratio",
        "mean over tokens of the capped weight learner / engine probability",
        "away from 1 by more than 0.02, or drifting with length",
    ),
    Metric(
        "importance_by_length",
        "ratio",
        "mean capped weight by completion length; a key is the upper end of its bin",
        "falls or rises with length: long completions silently lose or gain weight",
    ),
    Metric(
        "clip_share",
        "share",
        "tokens whose ratio was clipped / learned tokens",
        "above 0 on-policy; above 0.2 off-policy",
    ),
    Metric("tokens_learned", "tokens", "completion tokens that entered the loss", "0: every group was dead or masked"),
)

_MATCH: tuple[Metric, ...] = (
    Metric(
        "conversion",
        "share",
        "challenge right / matches whose draft was wrong",
        "not above the blind second pass's rate",
    ),
    Metric(
        "regression",
        "share",
        "challenge wrong / matches whose draft was right",
        "as large as the conversion it pays for",
    ),
    Metric(
        "copy_rate",
        "share",
        "challenge's answer equals the draft's / matches whose draft was wrong",
        "grows: it copies, not solves",
    ),
    Metric(
        "leak_rate",
        "share",
        "summaries that still show the withheld answer / summaries",
        "above 0.02: the challenger can copy",
    ),
    Metric(
        "empty_summary_share", "share", "drafts without a summary / drafts", "above 0.1: the exchange carries nothing"
    ),
    Metric(
        "bonus_effective_fraction",
        "share",
        "challenger groups whose advantages differ from cooperative's / groups",
        "near 0: the competitive bonus changes nothing",
    ),
    Metric(
        "advantage_draft_wrong",
        "advantage",
        "mean |advantage| of the challenges that are learned from and whose draft was wrong",
        "not above that of right drafts under a conversion bonus: the bonus is normalised away",
    ),
    Metric(
        "advantage_draft_right",
        "advantage",
        "mean |advantage| of the challenges that are learned from and whose draft was right",
        "far above that of wrong drafts: it learns most where there is nothing to mend",
    ),
    Metric(
        "withheld_mean",
        "count",
        "answer spans taken out / summaries",
        "0 where drafts state answers: withholding is broken",
    ),
)

_PAIR: tuple[Metric, ...] = (
    Metric(
        "distance",
        "ratio",
        "norm of the difference of the two adapters' effective updates / mean of their norms",
        "falls to 0: the two adapters have become one (1.41 is unrelated; 2 is opposite, or one of them still zero)",
    ),
)

_TIMINGS: tuple[Metric, ...] = (
    Metric("generate_s", "seconds", "the engine samples", "most of it with few tokens: long tails, or too few rows"),
    Metric("sync_s", "seconds", "the engine takes an adapter over and is looked at", "above a second a step"),
    Metric("verify_wait_s", "seconds", "sampling is over and verdicts are missing", "above 0: raise verifier.workers"),
    Metric("learn_s", "seconds", "updates of the adapters", "longer than sampling, on a GPU"),
    Metric("save_s", "seconds", "matches and checkpoints are written", "a large part of the step: raise save_every"),
    Metric("other_s", "seconds", "total_s - all parts above", "a large part of the step: the device waits"),
    Metric("total_s", "seconds", "the whole step", "grows from step to step while lengths do not"),
    Metric("sampled_tokens", "tokens", "completion tokens of all matches", "0"),
    Metric("memory_peak_bytes", "bytes", "most main memory of the process so far", "grows from step to step"),
    Metric(
        "gpu_peak_bytes", "bytes", "most memory of the CUDA device within the step; 0 without one", "near the device's"
    ),
)

_PACE: tuple[Metric, ...] = (
    Metric("generate_share", "share", "generate_s / total_s", "falls: something else takes longer and longer"),
    Metric("learn_share", "share", "learn_s / total_s", "above generate_share, on a GPU"),
    Metric("idle_share", "share", "1 - (generate_s + learn_s) / total_s", "above 0.1: neither samples nor learns"),
    Metric("sync_share", "share", "sync_s / total_s", "above 0.05"),
    Metric("verify_wait_share", "share", "verify_wait_s / total_s", "above 0: checking does not keep up"),
    Metric("save_share", "share", "save_s / total_s", "above 0.05: raise train.save_every"),
    Metric(
        "sampling_speed",
        "tokens per second",
        "sampled_tokens / generate_s",
        "falls while lengths do not grow",
    ),
    Metric("step_speed", "tokens per second", "sampled_tokens / total_s", "far below the sampling speed"),
    Metric(
        "learning_speed",
        "tokens per second",
        "tokens_learned of both streams / learn_s, prompts not counted",
        "below the sampling speed, on a GPU",
    ),
)


def _named(family: str, metrics: Iterable[Metric]) -> tuple[Metric, ...]:
    return tuple(Metric(f"{family}/{metric.name}", metric.unit, metric.formula, metric.bad) for metric in metrics)


METRICS: MappingProxyType[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            *_STEP,
            *_named("draft", _STREAM),
            *_named("challenge", _STREAM),
            *_named("match", _MATCH),
            *_named("pair", _PAIR),
        )
    }
)
"""Every metric by its name."""


TIMINGS: MappingProxyType[str, Metric] = MappingProxyType({metric.name: metric for metric in _TIMINGS})
"""What a line of timings.jsonl holds besides its step. Older runs have less."""

PACE: MappingProxyType[str, Metric] = MappingProxyType({metric.name: metric for metric in _named("pace", _PACE)})
"""What a report works out from both lines of a step; in no file."""


def check_names(names: Iterable[str]) -> None:
    """Check that every key of a metrics line is registered here (a mapping is read by its keys).

    Raises:
        ValueError: an unknown name, with the nearest known one.
    """
    for name in names:
        if name not in METRICS:
            near = difflib.get_close_matches(name, METRICS, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise ValueError(
                f"metric {name!r} is not in agon.metrics{hint}: register it with unit, formula and bad value"
            )
