"""What a match needs of the prompts: the border that training, evaluation and serving stand behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agon.records import Completion, Problem, Prompt, Summary


class Prompter(Protocol):
    """Writes what drafters and challengers read."""

    def draft(self, problem: Problem) -> Prompt:
        """Return the plain prompt."""
        ...

    def challenge(self, problem: Problem, summaries: Sequence[Summary]) -> Prompt:
        """Return the prompt that shows what the rivals left."""
        ...


class Summarizer(Protocol):
    """Says what a challenger may see of a draft."""

    def summarize(
        self, problem: Problem, completion: Completion, *, max_tokens: int, shows_answer: bool = False
    ) -> Summary:
        """Return the summary of a draft, the answer withheld unless `shows_answer`."""
        ...
