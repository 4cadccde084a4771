"""Verdicts where nobody knows the right answer: the answer is read, and not judged."""

from __future__ import annotations

from collections.abc import Sequence

from agon.answers import extract_answer
from agon.records import AnswerStyle, Completion, Problem, Verdict

NOT_CHECKED = "not checked: no right answer was given"
"""The reason of every verdict that judges nothing."""


def unchecked_verdict(completion: Completion, style: AnswerStyle) -> Verdict:
    """Return the answer of a completion, unjudged."""
    return Verdict("unparsed", 0.0, NOT_CHECKED, answer=extract_answer(completion.text, style))


class Unchecked:
    """Stands in for the verifiers of a session."""

    def verify(self, pairs: Sequence[tuple[Problem, Completion]], style: AnswerStyle) -> list[Verdict]:
        """Return the answers, unjudged."""
        return [unchecked_verdict(completion, style) for _, completion in pairs]

    def check_error_share(self) -> None:
        """Return: nothing was checked that could have failed."""

    def close(self) -> None:
        """Return: there are no worker processes."""
