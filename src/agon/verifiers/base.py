"""The border every verifier stands behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agon.records import AnswerStyle, Completion, Problem, Verdict

CHECKING_THREADS = 16
"""Threads to call a verifier from: they wait for checking processes most of the time."""


class Verifier(Protocol):
    """Decides about completions of one kind of problem. Safe to call from any thread."""

    def verify(self, pairs: Sequence[tuple[Problem, Completion]], style: AnswerStyle) -> list[Verdict]:
        """Return one verdict for each pair, in order. A failure of the checker itself is the outcome `error`, never raised."""
        ...

    def close(self) -> None:
        """End worker processes."""
        ...
