"""Verdicts where nobody knows the right answer: the answer is read, and not judged."""

from __future__ import annotations

from agon.answers import extract_answer
from agon.records import AnswerStyle, Completion, Verdict

NOT_CHECKED = "not checked: no right answer was given"
"""The reason of every verdict that judges nothing."""


def unchecked_verdict(completion: Completion, style: AnswerStyle) -> Verdict:
    """Return the answer of a completion, unjudged."""
    return Verdict("unparsed", 0.0, NOT_CHECKED, answer=extract_answer(completion.text, style))
