"""Which row stands for an arm: the protocol it was trained for, in the direction chosen on the development problems."""

from __future__ import annotations

from collections.abc import Sequence

from agon.comparison.arms import PlannedArm
from agon.comparison.records import Row

_BEST_WHO = ("chosen", "mean", "a-b", "b-a", "a", "b", "base")

# Pairs whose challengers read no draft while training answer alone, and a pair that read answers is deployed so.
_TRAINED_FOR = {
    "hidden": ("single",),
    "shared-hidden": ("single",),
    "answer-visible": ("answer-visible", "cascade"),
}


def headline(rows: Sequence[Row], arm: PlannedArm | None) -> Row | None:
    """Return the row that stands for an arm (None: the base), among its rows; None where there are none.

    A pair stands by its cascade; an adapter that learned to challenge itself by its self-cascade; any other by a single answer.
    Where that was not measured the first protocol that was takes its place. Among directions the chosen one comes before the
    mean of both, and that before either.
    """
    plain = [row for row in rows if not row.label] or list(rows)
    for protocol in (*_protocols(rows, arm), *dict.fromkeys(row.protocol for row in plain)):
        found = [row for row in plain if row.protocol == protocol]
        if found:
            return min(found, key=lambda row: (row.drafts, _rank(row)))
    return None


def representatives(rows: Sequence[Row]) -> list[Row]:
    """Return one row for every arm and protocol: the chosen direction, or the mean, or what there is."""
    best: dict[tuple[str, str, int, str], Row] = {}
    for row in rows:
        key = row.arm, row.protocol, row.drafts, row.label
        if key not in best or _rank(row) < _rank(best[key]):
            best[key] = row
    return list(best.values())


def _protocols(rows: Sequence[Row], arm: PlannedArm | None) -> tuple[str, ...]:
    if arm is None:
        return ("single",)
    if arm.method in _TRAINED_FOR:
        return _TRAINED_FOR[arm.method]
    if any(row.protocol == "cascade" for row in rows):
        return ("cascade",)
    if any(training.learns_challenges for training in arm.trainings):
        return ("self-cascade", "single")
    return ("single",)


def _rank(row: Row) -> int:
    return _BEST_WHO.index(row.who) if row.who in _BEST_WHO else len(_BEST_WHO)
