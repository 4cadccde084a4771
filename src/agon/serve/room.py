"""Whether a request fits the context, before anything of it is sampled."""

from __future__ import annotations

from dataclasses import replace

from agon.match.borders import Prompter
from agon.records import Problem, Prompt, Summary
from agon.serve.errors import RequestError
from agon.serve.records import Job

_NOTHING = Summary(text="", is_empty=True, has_leak=False, num_withheld=0)


class Room:
    """Knows the context, and what a challenge's prompt is longer than a draft's before there is a summary in it.

    `context_length` None is that of endpoints, which refuse by themselves what they cannot read.
    """

    def __init__(self, context_length: int | None, prompts: Prompter) -> None:
        self._context_length = context_length
        self._prompts = prompts
        self._added: dict[bool, int] = {}

    def require(self, problem: Problem, plain: Prompt, job: Job, *, param: str) -> None:
        """Check that each stage fits. `plain` is the prompt of a draft.

        Raises:
            RequestError: one would not.
        """
        context, sampling, lineup = self._context_length, job.sampling, job.lineup
        if context is None:
            return
        num_prompt = len(plain.token_ids)
        needs = {"draft" if lineup.has_challenge else "completion": (num_prompt, sampling.max_draft_tokens)}
        if lineup.has_challenge:
            shown = len(lineup.drafters) * sampling.max_summary_tokens
            added = self._added_by_challenge(problem, num_prompt, shows_answer=lineup.shows_answer)
            needs["challenge"] = (num_prompt + added + shown, sampling.max_challenge_tokens)
        for stage, (prompt, cap) in needs.items():
            if prompt + cap > context:
                raise RequestError(
                    f"the {stage} needs {prompt} prompt + {cap} new = {prompt + cap} tokens, but the context holds {context}: "
                    "shorten the prompt or lower the caps on tokens",
                    param=param,
                    code="context_length_exceeded",
                )

    def _added_by_challenge(self, problem: Problem, num_plain: int, *, shows_answer: bool) -> int:
        if shows_answer not in self._added:
            shown = replace(_NOTHING, shows_answer=shows_answer)
            self._added[shows_answer] = len(self._prompts.challenge(problem, [shown]).token_ids) - num_plain
        return self._added[shows_answer]
