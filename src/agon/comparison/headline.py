"""Which row stands for an arm: the protocol it was trained for, in the direction chosen on the development problems."""

from __future__ import annotations

from collections.abc import Sequence

from agon.comparison.arms import PlannedArm
from agon.comparison.records import Row

_BEST_WHO = ("chosen", "mean", "a-b", "b-a", "a", "b", "base")


def headline(rows: Sequence[Row], arm: PlannedArm | None) -> Row | None:
    """Return the row that stands for an arm (None: the base), among its rows; None where there are none.

    A pair stands by its cascade (with the answer shown, if it was in training), whatever opponents it had in training; an adapter that
    learned to challenge itself by its self-cascade; any other by a single answer. Where that was not measured the first protocol that
    was takes its place. What was measured with a doubled cap, or asked otherwise than in training, stands for an arm only where nothing
    else was measured. Among directions the chosen one comes before the mean of both, and that before either.
    """
    # Twice its own cap is not what an arm was trained for, not even that of one whose name says a doubled cap.
    as_trained = [row for row in rows if not row.changed] or list(rows)
    known = [row for row in as_trained if not row.has_doubled_cap] or as_trained
    plain = [row for row in known if not row.label] or known
    for protocol in (*_protocols(known, arm), *dict.fromkeys(row.protocol for row in plain)):
        found = best_of(known, protocol)
        if found is not None:
            return found
    return None


def best_of(rows: Sequence[Row], protocol: str) -> Row | None:
    """Return an arm's row in one protocol: the chosen direction, or the mean, or what there is; None where that was not measured."""
    found = [row for row in rows if row.protocol == protocol]
    return min(found, key=lambda row: (bool(row.label), row.drafts, _rank(row)), default=None)


def representatives(rows: Sequence[Row]) -> list[Row]:
    """Return one row for every arm and protocol: the chosen direction, or the mean, or what there is."""
    best: dict[tuple[str, str, int, bool, str], Row] = {}
    for row in rows:
        key = row.arm, row.protocol, row.drafts, row.has_doubled_cap, row.label
        if key not in best or _rank(row) < _rank(best[key]):
            best[key] = row
    return list(best.values())


def _protocols(rows: Sequence[Row], arm: PlannedArm | None) -> tuple[str, ...]:
    if arm is None:
        return ("single",)
    if arm.method == "answer-visible":
        return "answer-visible", "cascade"
    if any(row.protocol == "cascade" for row in rows):
        return ("cascade",)
    if any(training.learns_challenges for training in arm.trainings):
        return ("self-cascade", "single")
    return ("single",)


def _rank(row: Row) -> int:
    return _BEST_WHO.index(row.who) if row.who in _BEST_WHO else len(_BEST_WHO)
