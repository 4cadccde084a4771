"""Measure a protocol on a split: accuracy with its interval, tokens of every stage, and what the exchange did."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agon.config import EvaluationSettings
from agon.evaluation.batches import Progress, play_all, require_problems
from agon.evaluation.conditional import blind_second_rate, rate_intervals, where_wrong
from agon.evaluation.ledger import token_ledger
from agon.match.lineups import lineup_for
from agon.match.play import Sampling
from agon.match.rates import exchange_rates
from agon.match.session import Session
from agon.records import DIRECTIONS, Direction, Lineup, Match, Problem
from agon.stats.intervals import accuracy_interval
from agon.stats.passk import pass_at_k

# Share of final answers from which on the caps, and not the model, may decide the result.
_MUCH_TRUNCATED = 0.05


@dataclass(frozen=True, slots=True)
class Subject:
    """What is measured, as the result file names it. `dev_accuracy` is that of what was chosen on the development problems;
    `has_doubled_cap` says that the caps are twice those of the run's settings, `prompts` how players are asked, by setting, and
    `checkpoint` after how many steps, where that was asked for.
    """

    label: str
    task: str
    protocol: str
    lineup: Lineup
    split: str
    direction: Direction | None = None
    method: str | None = None
    title: str | None = None
    notes: tuple[str, ...] = ()
    dev_accuracy: float | None = None
    has_doubled_cap: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict[str, str])
    checkpoint: int | None = None


class Evaluated(NamedTuple):
    """An evaluation as JSON (see `docs/structure.md`), and the matches it was counted from, one a problem and sample.

    `latency_s` is what the engine took for a match, played in batches: a throughput, not the time that one waits for an answer. It stands
    beside the result, which repeats itself to the byte.

    Units: seconds.
    """

    result: dict[str, Any]
    matches: list[list[Match]]
    latency_s: float

    @property
    def flat_matches(self) -> list[Match]:
        """The matches in the order of the problems, one after the other."""
        return [match for of_problem in self.matches for match in of_problem]

    @property
    def accuracy(self) -> float:
        """Mean correctness over problems and samples."""
        return self.result["accuracy"]

    @property
    def stored(self) -> dict[str, Any]:
        """The result as it is filed: with its latency."""
        return {**self.result, "latency_s": self.latency_s}


def evaluate(
    session: Session,
    problems: Sequence[Problem],
    subject: Subject,
    *,
    settings: EvaluationSettings,
    sampling: Sampling,
    progress: Progress | None = None,
) -> Evaluated:
    """Play `settings.samples` matches of every problem and count.

    A match whose final check failed by the checker's own fault is counted wrong and reported under `outcomes.error`, never left
    out. Beside a challenge's conversion rate stands the blind second pass: how often the challenger's adapter, without reading
    anything, solves the problems whose draft was wrong and challenged.

    Raises:
        DataError: there are no problems, or too few for placebos.
        VerifierError: too large a share of the checks failed.
    """
    require_problems(problems, task=subject.task, split=subject.split)
    lineup, before = subject.lineup, session.sampling_seconds
    matches = play_all(session, problems, lineup, settings=settings, sampling=sampling, progress=progress)
    latency_s = (session.sampling_seconds - before) / (len(problems) * settings.samples)
    result = _counted(problems, matches, subject, settings=settings, sampling=sampling)
    if lineup.has_challenge:
        # Only where something is counted: a problem draws the same whatever else is played.
        numbers = where_wrong(matches)
        alone = Lineup(drafters=(lineup.challenger,))
        blind = play_all(
            session,
            [problems[number] for number in numbers],
            alone,
            settings=settings,
            sampling=sampling,
            stream="blind",
        )
        beside = [matches[number] for number in numbers]
        result["blind_second"] = blind_second_rate(beside, blind)
        result["intervals"] = rate_intervals(matches, beside, blind, seed=settings.seed)
    return Evaluated(result, matches, latency_s)


def direction_scores(
    session: Session,
    problems: Sequence[Problem],
    *,
    task: str,
    settings: EvaluationSettings,
    sampling: Sampling,
    lineups: Mapping[Direction, Lineup] | None = None,
) -> dict[Direction, float]:
    """Return the accuracy in each direction on the development problems, of a cascade or of other line-ups.

    Choosing the better of two on the test problems would inflate the result by one to two points (docs/statistics.md).

    Raises:
        DataError: there are no development problems.
    """
    require_problems(problems, task=task, split="dev")
    scores: dict[Direction, float] = {}
    for direction in DIRECTIONS:
        lineup = lineup_for("cascade", direction=direction) if lineups is None else lineups[direction]
        played = play_all(session, problems, lineup, settings=settings, sampling=sampling)
        scores[direction] = _mean([float(match.final.is_correct) for of_problem in played for match in of_problem])
    return scores


def better_direction(scores: Mapping[Direction, float]) -> Direction:
    """Return the direction with the higher accuracy; a tie goes to a-b."""
    return "b-a" if scores["b-a"] > scores["a-b"] else "a-b"


def direction_note(scores: Mapping[Direction, float], *, num_problems: int) -> str:
    """Say which direction was chosen, and on what."""
    both = ", ".join(f"{direction} {score:.3f}" for direction, score in scores.items())
    return f"direction {better_direction(scores)} chosen on {num_problems} development problems ({both})"


def _counted(
    problems: Sequence[Problem],
    matches: list[list[Match]],
    subject: Subject,
    *,
    settings: EvaluationSettings,
    sampling: Sampling,
) -> dict[str, Any]:
    """The result as JSON; what needs a blind second pass is still empty."""
    flat = [match for of_problem in matches for match in of_problem]
    correct = [[match.final.is_correct for match in of_problem] for of_problem in matches]
    rates = exchange_rates(flat)
    return {
        **_described(subject),
        "n": len(problems),
        "samples": settings.samples,
        "accuracy": _mean([float(value) for of_problem in correct for value in of_problem]),
        "interval": accuracy_interval(correct, seed=settings.seed).to_json(),
        "tokens": token_ledger(flat),
        "challenged_share": _mean([float(match.challenge is not None) for match in flat]),
        "conversion": rates.conversion,
        "regression": rates.regression,
        "copy_rate": rates.copy,
        "leak_rate": rates.leak,
        "empty_summary_share": rates.empty,
        "blind_second": None,
        "intervals": {},
        "pass_at_k": _pass_at_k(correct),
        "outcomes": dict(Counter(match.final.verdict.outcome for match in flat)),
        "truncated_share": _truncated_share(flat),
        "seed": settings.seed,
        "caps": {
            "draft": sampling.max_draft_tokens,
            "challenge": sampling.max_challenge_tokens if subject.lineup.has_challenge else None,
            "summary": sampling.max_summary_tokens if subject.lineup.has_challenge else None,
        },
        "doubled_cap": subject.has_doubled_cap,
        "prompts": dict(subject.prompts),
        "checkpoint": subject.checkpoint,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "per_problem": [{"id": problem.id, "correct": row} for problem, row in zip(problems, correct, strict=True)],
        "notes": [*subject.notes, *_truncated_note(flat)],
    }


def _described(subject: Subject) -> dict[str, Any]:
    return {
        "label": subject.label,
        "title": subject.title or subject.label,
        "task": subject.task,
        "protocol": subject.protocol,
        "direction": subject.direction,
        "method": subject.method,
        "players": {"drafters": list(subject.lineup.drafters), "challenger": _challenger_name(subject.lineup)},
        "lineup": _lineup_json(subject.lineup),
        "split": subject.split,
        "dev_accuracy": subject.dev_accuracy,
    }


def _lineup_json(lineup: Lineup) -> dict[str, Any]:
    """How the players play. JSON has no infinity: such a threshold is the text `inf` or `-inf`."""
    threshold = lineup.threshold if math.isfinite(lineup.threshold) else str(lineup.threshold)
    return {
        "reads": lineup.reads if lineup.has_challenge else None,
        "shows_answer": lineup.shows_answer,
        "layers": lineup.layers,
        "doubt": lineup.doubt,
        "threshold": None if lineup.doubt is None else threshold,
    }


def _truncated_share(matches: Sequence[Match]) -> float:
    return _mean([float(attempt.completion.is_truncated) for match in matches for attempt in match.attempts])


def _truncated_note(matches: Sequence[Match]) -> list[str]:
    ended = [match.final.is_correct for match in matches if not match.final.completion.is_truncated]
    num_cut = len(matches) - len(ended)
    if num_cut <= _MUCH_TRUNCATED * len(matches):
        return []
    among = f"of the {len(ended)} that ended {_mean(ended):.3f} are right" if ended else "none ended"
    return [
        f"{num_cut} of {len(matches)} final answers were cut at their cap and count as wrong; {among}: the caps are "
        "rollout.max_draft_tokens and rollout.max_challenge_tokens"
    ]


def _pass_at_k(correct: Sequence[Sequence[bool]]) -> dict[str, float]:
    samples = len(correct[0])
    powers = [k for k in (1, 2, 4, 8, 16, 32, 64) if k <= samples]
    return {str(k): _mean([pass_at_k(samples, sum(row), k) for row in correct]) for k in powers}


def _challenger_name(lineup: Lineup) -> str | None:
    return (lineup.challenger or "base") if lineup.has_challenge else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
