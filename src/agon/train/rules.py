"""What is bad in the numbers of a training: one rule an alarm, a function of the lines of metrics.jsonl so far and of the table [alarms]."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from agon.config import AlarmSettings

# Below this share of right drafts a run that learns nothing is not one that has nothing left to learn.
_SOLVED = 0.5
# A format that at no step so large a share of the completions kept to cannot be lost.
_READABLE = 0.2


@dataclass(slots=True)
class Series:
    """The lines of the steps in which an adapter played a role (`family` is `draft` or `challenge`), or of all steps (no family)."""

    about: str
    family: str = ""
    lines: list[Mapping[str, float]] = field(default_factory=list[Mapping[str, float]])

    def named(self, metric: str) -> str:
        """Return the whole name of a metric of the role."""
        return metric if "/" in metric else f"{self.family}/{metric}"

    def newest(self, metric: str) -> float | None:
        """Return a number of the newest line, or None where it has none."""
        return self.lines[-1].get(self.named(metric))

    def first(self, metric: str, count: int) -> float | None:
        """Return the mean of the first `count` values, or None as long as there are no others."""
        values = list(islice(self._values(metric, self.lines), count + 1))
        return sum(values[:count]) / count if len(values) > count else None

    def last(self, metric: str, count: int) -> float | None:
        """Return the mean of the last `count` values, or of as many as there are."""
        values = list(islice(self._values(metric, reversed(self.lines)), count))
        return sum(values) / len(values) if values else None

    def _values(self, metric: str, lines: Iterable[Mapping[str, float]]) -> Iterator[float]:
        name = self.named(metric)
        return (line[name] for line in lines if name in line)


class Judged(NamedTuple):
    """A number of the newest step, the limit it is held against, and whether it is bad."""

    metric: str
    value: float
    threshold: float
    is_bad: bool


@dataclass(frozen=True, slots=True)
class Rule:
    """When an alarm sounds; `says` is what the number means, and what to do. None from `judge` is no evidence either way.

    `breaks` says that an adapter which was not so from its first step on is broken. `steps` names the setting of how many steps.
    `is_of_run` says that the rule looks at the lines of all steps, not at those of an adapter in a role.
    """

    name: str
    judge: Callable[[Series, AlarmSettings], Judged | None]
    says: str
    steps: str = "steps"
    breaks: bool = False
    is_of_run: bool = False


def _at_least(series: Series, metric: str, limit: float) -> Judged | None:
    value = series.newest(metric)
    return None if value is None else Judged(series.named(metric), value, limit, value >= limit)


def _at_most(series: Series, metric: str, limit: float) -> Judged | None:
    value = series.newest(metric)
    return None if value is None else Judged(series.named(metric), value, limit, value <= limit)


def _only_if(judged: Judged | None, is_so: bool) -> Judged | None:
    return None if judged is None else judged._replace(is_bad=judged.is_bad and is_so)


def _all_truncated(series: Series, own: AlarmSettings) -> Judged | None:
    # With a single completion that ended there can be a signal: the run may yet learn to be shorter.
    return _at_least(series, "truncated_share", 1.0)


def _truncated(series: Series, own: AlarmSettings) -> Judged | None:
    if own.all_truncated != "off" and series.newest("truncated_share") == 1.0:
        return None  # the other alarm's; as no evidence it does not end a spell of this one
    return _at_least(series, "truncated_share", own.truncated_share)


def _all_empty(series: Series, own: AlarmSettings) -> Judged | None:
    # A cap of so few tokens is another mistake.
    return _only_if(_at_most(series, "tokens_mean", own.empty_tokens), (series.newest("truncated_share") or 0.0) < 0.5)


def _empty_summaries(series: Series, own: AlarmSettings) -> Judged | None:
    if series.family != "challenge":
        return None
    judged = _at_least(series, "match/empty_summary_share", own.empty_summary_share)
    # A draft that is right at its first try may have nothing left to say once its answer is withheld.
    return _only_if(judged, (series.newest("draft/accuracy") or 0.0) < _SOLVED)


def _format_lost(series: Series, own: AlarmSettings) -> Judged | None:
    def readable(line: Mapping[str, float]) -> float:
        shares = (line.get(series.named(name), 0.0) for name in ("unparsed_share", "truncated_share"))
        return 1.0 - sum(shares)

    value = readable(series.lines[-1])
    # The best step of before is looked up only where it can matter: it takes all lines.
    best = max(map(readable, series.lines)) if value <= own.format_lost_share else 1.0
    limit = own.format_lost_share * best
    return Judged("share of readable completions", value, limit, value <= limit and best >= _READABLE)


def _entropy_collapse(series: Series, own: AlarmSettings) -> Judged | None:
    start = series.first("entropy", own.steps)
    if start is None:
        return None
    return _at_most(series, "entropy", min(own.entropy_nats, own.entropy_share * start))


def _length_explosion(series: Series, own: AlarmSettings) -> Judged | None:
    start = series.first("tokens_mean", own.steps)
    if start is None:
        return None
    before, after = series.first("accuracy", own.steps), series.last("accuracy", own.steps)
    has_risen = before is not None and after is not None and after > before
    return _only_if(_at_least(series, "tokens_mean", own.length_factor * start), not has_risen)


def _engine_gap(series: Series, own: AlarmSettings) -> Judged | None:
    return _at_least(series, "logprob_gap_mean", own.engine_gap_nats)


def _dead_groups(series: Series, own: AlarmSettings) -> Judged | None:
    return _at_least(series, "dead_group_share", own.dead_group_share)


def _nothing_learned(series: Series, own: AlarmSettings) -> Judged | None:
    names = [name for name in ("draft/tokens_learned", "challenge/tokens_learned") if series.newest(name) is not None]
    if not names:
        return None
    value = sum(series.lines[-1][name] for name in names)
    is_solved = (series.newest("draft/accuracy") or 0.0) >= _SOLVED
    return Judged(" + ".join(names), value, 0.0, value == 0.0 and not is_solved)


def _pair_alike(series: Series, own: AlarmSettings) -> Judged | None:
    return _at_most(series, "pair/distance", own.pair_distance)


RULES: tuple[Rule, ...] = (
    Rule(
        "all_truncated",
        _all_truncated,
        "every completion is cut at {cap}, so that none can be right: raise it, or take a base that comes to an end",
        breaks=True,
    ),
    Rule(
        "truncated",
        _truncated,
        "the cap decides most rewards, and what is learned is to be short: raise {cap}",
    ),
    Rule(
        "all_empty",
        _all_empty,
        "completions end where they begin: look at the prompt's chat template, or lower train.learning_rate",
        breaks=True,
    ),
    Rule(
        "empty_summaries",
        _empty_summaries,
        "the challenger has nothing to read: see in the matches how drafts mark their reasoning (task.answer_style), and their caps",
    ),
    Rule(
        "format_lost",
        _format_lost,
        "answers that could be read before no longer can: lower train.learning_rate, or raise reward.format",
        breaks=True,
    ),
    Rule(
        "entropy_collapse",
        _entropy_collapse,
        "the policy samples nearly the same tokens every time, and groups will lose their signal: lower train.learning_rate, or raise "
        "train.clip_high or rollout.temperature",
    ),
    Rule(
        "length_explosion",
        _length_explosion,
        "completions grow and are no more often right for it: see in the matches what they are filled with",
    ),
    Rule(
        "engine_gap",
        _engine_gap,
        "engine and learner say different things of the same tokens: look for a stale adapter, another temperature, or rounding "
        "(model.dtype)",
    ),
    Rule(
        "dead_groups",
        _dead_groups,
        "hardly any group holds right and wrong completions, so that hardly anything is learned: take problems of another difficulty "
        "(task.difficulty_min, task.difficulty_max), or raise train.group_size",
        steps="dead_group_steps",
    ),
    Rule(
        "nothing_learned",
        _nothing_learned,
        "no group had a signal, so that no weight moves: take easier problems or a stronger base, or raise train.group_size",
        steps="nothing_learned_steps",
        is_of_run=True,
    ),
    Rule(
        "pair_alike",
        _pair_alike,
        "the two adapters have become one, and have nothing to tell each other: begin with another adapter.init",
        is_of_run=True,
    ),
)
"""Every rule on lines of metrics, in the order in which alarms of the same step sound."""
