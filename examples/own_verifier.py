"""A verifier of your own, in one file: a function that judges one answer.

It takes a number that is as near to the gold answer as the row's column `tolerance` says.

    PYTHONPATH=examples agon data check physics.jsonl --set task.verifier=own_verifier:within
"""

from __future__ import annotations

from agon.numerals import only_number
from agon.records import Problem, Verdict


def within(problem: Problem, answer: str) -> Verdict:
    """Compare the one number of an answer with the gold number."""
    # What fails here (no tolerance, a gold that is no number) is the outcome `error`: nothing is learned from it.
    gold, tolerance = float(problem.gold), float(problem.details["tolerance"])
    number = only_number(answer)
    if number is None:
        return Verdict("unparsed", 0.0, "the answer is not one number", answer, problem.gold)
    distance = abs(float(number.value) - gold)
    if distance <= tolerance:
        return Verdict("correct", 1.0, f"within {tolerance:g}", answer, problem.gold)
    return Verdict("wrong", 0.0, f"off by {distance:g}", answer, problem.gold)
