"""One direction of an exchange under the microscope: each rate with its interval, beside what the challenger does without reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agon.records import Attempt, Match
from agon.stats.intervals import Interval, accuracy_interval


@dataclass(frozen=True, slots=True)
class Rate:
    """A share of `n` matches, with its interval over problems."""

    rate: float
    n: int
    interval: Interval


@dataclass(frozen=True, slots=True)
class Exchanged:
    """Rates of one direction; None where there was nothing to take a share of.

    conversion: P(challenge right | draft wrong). regression: P(challenge wrong | draft right). copy: P(the draft's answer repeated |
    draft wrong, answered). leak: summaries in which the draft's answer can be read. The three `blind` rates are the same shares for an
    answer of the challenger's adapter that read nothing, on the same problems: what conversion, regression and copying would be
    without an exchange. `discernment` is the mean of P(challenge right | draft right) and 1 - copy: one half for a challenger that
    always agrees, or never.
    """

    conversion: Rate | None
    regression: Rate | None
    copy: Rate | None
    leak: Rate | None
    blind_conversion: Rate | None
    blind_regression: Rate | None
    blind_copy: Rate | None

    @property
    def discernment(self) -> float | None:
        """Mean of keeping right answers and dropping wrong ones."""
        if self.regression is None or self.copy is None:
            return None
        return ((1.0 - self.regression.rate) + (1.0 - self.copy.rate)) / 2

    def to_json(self) -> dict[str, Any]:
        """Turn the rates into plain JSON types."""
        return {**asdict(self), "discernment": self.discernment}


def exchanged(matches: Sequence[Sequence[Match]], alone: Sequence[Sequence[Attempt]], *, seed: int) -> Exchanged:
    """Count matches (one inner sequence a problem) and, beside each, an answer that the challenger's adapter gave `alone`.

    Left out is what a checker failed on, in the match or beside it.

    Raises:
        ValueError: the two are not of the same problems and samples.
    """
    beside = [
        [(match, other) for match, other in zip(of_problem, others, strict=True) if _is_judged(match, other)]
        for of_problem, others in zip(matches, alone, strict=True)
    ]

    def rate(is_counted: Callable[[Match], bool], has_it: Callable[[Match, Attempt], bool]) -> Rate | None:
        table = [[has_it(*both) for both in of_problem if is_counted(both[0])] for of_problem in beside]
        return _rate(table, seed=seed)

    leaks = [[summary.has_leak for match in of_problem for summary in match.summaries] for of_problem in matches]
    return Exchanged(
        conversion=rate(_is_wrong, lambda match, _: match.final.is_correct),
        regression=rate(_is_right, lambda match, _: not match.final.is_correct),
        copy=rate(_is_wrong_answer, lambda match, _: _repeats(match.final, match)),
        leak=_rate(leaks, seed=seed),
        blind_conversion=rate(_is_wrong, lambda _, other: other.is_correct),
        blind_regression=rate(_is_right, lambda _, other: not other.is_correct),
        blind_copy=rate(_is_wrong_answer, lambda match, other: _repeats(other, match)),
    )


def _rate(table: Sequence[Sequence[bool]], *, seed: int) -> Rate | None:
    rows = [row for row in table if row]
    if not rows:
        return None
    values = [value for row in rows for value in row]
    return Rate(sum(values) / len(values), len(values), accuracy_interval(rows, seed=seed))


def _is_judged(match: Match, other: Attempt) -> bool:
    return match.challenge is not None and not any(part.verdict.is_masked for part in (*match.attempts, other))


def _is_right(match: Match) -> bool:
    return match.draft.is_correct


def _is_wrong(match: Match) -> bool:
    return not match.draft.is_correct


def _is_wrong_answer(match: Match) -> bool:
    return _is_wrong(match) and match.draft.verdict.answer is not None


def _repeats(attempt: Attempt, match: Match) -> bool:
    return attempt.verdict.answer == match.draft.verdict.answer
