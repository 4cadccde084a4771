"""The prompts that adapters were trained on, with places for a problem and a summary: whoever uses them elsewhere has to write the same."""

from __future__ import annotations

from typing import Any, NamedTuple

from agon.config import Settings
from agon.countdown_text import draft_question
from agon.match.session import prompt_builder
from agon.records import Problem, Prompt, Summary

_EXAMPLE = draft_question((12, 7, 5), 25)
_EXAMPLE_SUMMARY = "(a+b) +c =24"


class Prompts(NamedTuple):
    """What a drafter and a challenger read."""

    draft: Prompt
    challenge: Prompt


def prompts_of(settings: Settings, tokenizer: Any, *, shows_answer: bool) -> Prompts:
    """Return both prompts in the run's wording, for `{problem}` and `{summary}`; for the embedded base, which knows no words, an example.

    Raises:
        AgonError: the chat template cannot be used.
    """
    builder = prompt_builder(settings, tokenizer)
    has_words = settings.task.wording != "symbols-v1"
    question, said = ("{problem}", "{summary}") if has_words else (_EXAMPLE, _EXAMPLE_SUMMARY)
    problem = Problem(id="", question=question, gold="", task=settings.task.name, verifier="exact")
    summary = Summary(said, is_empty=False, has_leak=False, num_withheld=0, shows_answer=shows_answer)
    return Prompts(builder.draft(problem), builder.challenge(problem, [summary]))
