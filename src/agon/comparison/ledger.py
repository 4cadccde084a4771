"""What an answer costs: accuracy against tokens, who is beaten by whom, with majority@k, the likeliest and a doubled cap as the honest rivals.

The tokens of every stage stand in the rows (`records.Tokens`); this ranks the rows by them.
"""

from __future__ import annotations

from collections.abc import Sequence

from agon.comparison.headline import representatives
from agon.comparison.records import FrontierPoint, Row


def frontier(rows: Sequence[Row]) -> tuple[FrontierPoint, ...]:
    """Return one point for every arm and protocol, cheapest first.

    On the front are the rows that no other beats: none is at least as accurate for at most as many generated tokens, and better in
    one of the two. Equal rows stand on it together. The front is a description of these numbers, not a test: see their intervals.
    """
    shown = sorted(representatives(rows), key=lambda row: (row.tokens.total, -row.accuracy))
    return tuple(_point(row, shown) for row in shown)


def is_rival(row: Row) -> bool:
    """Tell whether a row buys accuracy with tokens alone: a vote among three answers or more, the likeliest, or one pass with a doubled cap.

    Two votes that differ are a tie, which the first wins: a majority of two is the single answer at twice the tokens, and no rival.
    """
    is_choice = row.protocol == "likeliest" or (row.protocol == "majority" and row.drafts > 2)
    # An arm may have been trained with a doubled cap, or only been measured with one.
    return is_choice or (row.protocol == "single" and (row.has_doubled_cap or "doubled-cap" in row.arm))


def _point(row: Row, shown: Sequence[Row]) -> FrontierPoint:
    better = [other for other in shown if _beats(other, row)]
    best = max(better, key=lambda other: (other.accuracy, -other.tokens.total), default=None)
    return FrontierPoint(
        row=row.id,
        accuracy=row.accuracy,
        total=row.tokens.total,
        all_tokens=row.tokens.total + row.tokens.prefill_total,
        is_on_front=best is None,
        is_rival=is_rival(row),
        dominated_by=None if best is None else best.id,
    )


def _beats(other: Row, row: Row) -> bool:
    at_most, at_least = other.tokens.total <= row.tokens.total, other.accuracy >= row.accuracy
    return at_most and at_least and (other.tokens.total < row.tokens.total or other.accuracy > row.accuracy)
