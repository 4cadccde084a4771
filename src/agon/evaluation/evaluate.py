"""Measure a protocol on a split: accuracy with its interval, tokens of every stage, and what the exchange did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agon.config import EvaluationSettings
from agon.errors import DataError
from agon.evaluation.conditional import blind_second_rate, rate_intervals
from agon.match.lineups import lineup_for
from agon.match.play import Sampling, play
from agon.match.rates import exchange_rates
from agon.match.session import Session
from agon.records import DIRECTIONS, Direction, Lineup, Match, Problem
from agon.stats.intervals import accuracy_interval
from agon.stats.passk import pass_at_k

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Subject:
    """What is measured, as the result file names it."""

    label: str
    task: str
    protocol: str
    lineup: Lineup
    split: str
    direction: Direction | None = None
    method: str | None = None
    title: str | None = None
    notes: tuple[str, ...] = ()


class Evaluated(NamedTuple):
    """An evaluation as JSON (see `docs/structure.md`), and the matches it was counted from, one a problem and sample."""

    result: dict[str, Any]
    matches: list[list[Match]]

    @property
    def accuracy(self) -> float:
        """Mean correctness over problems and samples."""
        return self.result["accuracy"]


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
    anything, solves the problems whose draft was wrong.

    Raises:
        DataError: there are no problems.
        VerifierError: too large a share of the checks failed.
    """
    require_problems(problems, task=subject.task, split=subject.split)
    lineup = subject.lineup
    matches = _play_all(
        session, problems, lineup, settings=settings, sampling=sampling, stream="evaluate", progress=progress
    )
    result = _counted(problems, matches, subject, settings=settings, sampling=sampling)
    if lineup.has_challenge:
        alone = Lineup(drafters=(lineup.challenger,))
        blind = _play_all(session, problems, alone, settings=settings, sampling=sampling, stream="blind")
        result["blind_second"] = blind_second_rate(matches, blind)
        result["intervals"] = rate_intervals(matches, blind, seed=settings.seed)
    return Evaluated(result, matches)


def choose_direction(
    session: Session,
    problems: Sequence[Problem],
    *,
    task: str,
    settings: EvaluationSettings,
    sampling: Sampling,
) -> tuple[Direction, str]:
    """Pick a cascade's direction on the development problems, and say so with both accuracies. A tie goes to a-b.

    Choosing the better of two on the test problems would inflate the result by one to two points (ALGORITHMS 10).

    Raises:
        DataError: there are no development problems.
    """
    scores = direction_scores(session, problems, task=task, settings=settings, sampling=sampling)
    chosen = better_direction(scores)
    both = ", ".join(f"{direction} {score:.3f}" for direction, score in scores.items())
    return chosen, f"direction {chosen} chosen on {len(problems)} development problems ({both})"


def direction_scores(
    session: Session,
    problems: Sequence[Problem],
    *,
    task: str,
    settings: EvaluationSettings,
    sampling: Sampling,
) -> dict[Direction, float]:
    """Return the accuracy of a cascade in each direction on the development problems.

    Raises:
        DataError: there are no development problems.
    """
    require_problems(problems, task=task, split="dev")
    scores: dict[Direction, float] = {}
    for direction in DIRECTIONS:
        lineup = lineup_for("cascade", direction=direction)
        played = _play_all(session, problems, lineup, settings=settings, sampling=sampling, stream="evaluate")
        scores[direction] = _mean([float(match.final.is_correct) for of_problem in played for match in of_problem])
    return scores


def better_direction(scores: Mapping[Direction, float]) -> Direction:
    """Return the direction with the higher accuracy; a tie goes to a-b."""
    return "b-a" if scores["b-a"] > scores["a-b"] else "a-b"


def token_ledger(matches: Sequence[Match]) -> dict[str, float]:
    """Return mean tokens of each stage a match: generated, read by the challenger from summaries, and prefilled in all.

    `total` counts every generated token of every stage, `prefill_total` every prompt token beside it.
    """
    drafts = _mean([sum(draft.completion.num_tokens for draft in match.drafts) for match in matches])
    challenge = _mean([0 if match.challenge is None else match.challenge.completion.num_tokens for match in matches])
    return {
        "draft": drafts,
        "summary_prefill": _mean([sum(summary.num_tokens for summary in match.summaries) for match in matches]),
        "challenge": challenge,
        "total": drafts + challenge,
        "prefill_total": _mean([sum(len(part.prompt.token_ids) for part in match.attempts) for match in matches]),
    }


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
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "per_problem": [{"id": problem.id, "correct": row} for problem, row in zip(problems, correct, strict=True)],
        "notes": list(subject.notes),
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
        "split": subject.split,
    }


def _truncated_share(matches: Sequence[Match]) -> float:
    return _mean([float(attempt.completion.is_truncated) for match in matches for attempt in match.attempts])


def require_problems(problems: Sequence[Problem], *, task: str, split: str) -> None:
    """Check that a split has problems.

    Raises:
        DataError: it has none.
    """
    if not problems:
        raise DataError(f"the {split} split of {task} is empty: nothing to evaluate; raise task.{split}_share")


def _play_all(
    session: Session,
    problems: Sequence[Problem],
    lineup: Lineup,
    *,
    settings: EvaluationSettings,
    sampling: Sampling,
    stream: str,
    progress: Progress | None = None,
) -> list[list[Match]]:
    matches: list[list[Match]] = []
    for start in range(0, len(problems), settings.problems_per_batch):
        batch = problems[start : start + settings.problems_per_batch]
        matches += play(
            session, batch, lineup, samples=settings.samples, sampling=sampling, seed=settings.seed, stream=(stream,)
        )
        if progress is not None:
            progress(len(matches), len(problems))
    return matches


def _pass_at_k(correct: Sequence[Sequence[bool]]) -> dict[str, float]:
    samples = len(correct[0])
    powers = [k for k in (1, 2, 4, 8, 16, 32, 64) if k <= samples]
    return {str(k): _mean([pass_at_k(samples, sum(row), k) for row in correct]) for k in powers}


def _challenger_name(lineup: Lineup) -> str | None:
    return (lineup.challenger or "base") if lineup.has_challenge else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
