"""Rates among matches whose draft was wrong, or right, each with its interval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agon.records import Match
from agon.stats.intervals import accuracy_interval

_Table = Sequence[Sequence[Match]]


def where_wrong(matches: _Table) -> list[int]:
    """Return the numbers of the problems with a match whose every draft was wrong and that was challenged."""
    return [
        number
        for number, of_problem in enumerate(matches)
        if any(
            match.challenge is not None and not any(draft.is_correct for draft in match.drafts) for match in of_problem
        )
    ]


def rate_intervals(matches: _Table, beside: _Table, blind: _Table, *, seed: int) -> dict[str, Any]:
    """Return the intervals of conversion, regression and the blind second pass as JSON, those that have something to count.

    Each table holds one inner sequence a problem. `blind` is the second, unread pass on the problems and samples of `beside`, a part of
    `matches`. As for an accuracy: exact where every problem counts once, else the cluster bootstrap by problem.
    """
    counted = {
        "conversion": _among(matches, matches, is_right=False, counts=lambda match: match.final.is_correct),
        "regression": _among(matches, matches, is_right=True, counts=lambda match: not match.final.is_correct),
        "blind_second": _among(beside, blind, is_right=False, counts=lambda match: match.final.is_correct),
    }
    return {
        name: {**accuracy_interval(table, seed=seed).to_json(), "n": sum(len(row) for row in table)}
        for name, table in counted.items()
        if table
    }


def blind_second_rate(matches: _Table, blind: _Table) -> float | None:
    """Return P(independent second pass right | every draft wrong): the null that a conversion rate has to beat."""
    table = _among(matches, blind, is_right=False, counts=lambda match: match.final.is_correct)
    values = [value for row in table for value in row]
    return sum(values) / len(values) if values else None


def _among(matches: _Table, measured: _Table, *, is_right: bool, counts: Callable[[Match], bool]) -> list[list[bool]]:
    """Count `measured` where the match beside it challenged a right draft (or none right); problems without such a match are left out.

    A match with a failed check is left out here, as in `exchange_rates`.
    """
    table = [
        [
            counts(other)
            for match, other in zip(of_problem, others, strict=True)
            if match.challenge is not None
            and not any(attempt.verdict.is_masked for attempt in (*match.attempts, *other.attempts))
            and any(draft.is_correct for draft in match.drafts) == is_right
        ]
        for of_problem, others in zip(matches, measured, strict=True)
    ]
    return [row for row in table if row]
