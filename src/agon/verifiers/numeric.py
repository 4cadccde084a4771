"""Decide whether an answer is the number that was asked for, exactly."""

from __future__ import annotations

from agon.numerals import only_number, read_number, same_number
from agon.records import Verdict


def check_numeric(gold: str, answer: str) -> Verdict:
    """Compare the one number of an answer with the gold number as exact fractions.

    Words and units around the number are allowed, a second number or a formula is not (`agon.numerals`).
    """
    wanted = read_number(gold) or only_number(gold)
    if wanted is None:
        return Verdict("error", 0.0, "the gold answer is no number", answer, gold)
    found = read_number(answer) or only_number(answer)
    if found is None:
        return Verdict("unparsed", 0.0, "the answer is not one number", answer, gold)
    if same_number(wanted, found):
        return Verdict("correct", 1.0, "equal numbers", answer, gold)
    return Verdict("wrong", 0.0, "other number", answer, gold)
