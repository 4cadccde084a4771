"""Whether a request fits the context, before anything of it is sampled."""

from __future__ import annotations

from dataclasses import replace

from agon.records import Summary
from agon.serve.errors import RequestError
from agon.serve.records import Job

_NOTHING = Summary(text="", is_empty=True, has_leak=False, num_withheld=0)


class ContextCheck:
    """Refuses what does not fit into `context_length` tokens; None is that of endpoints, which refuse by themselves what they cannot read."""

    def __init__(self, context_length: int | None) -> None:
        self._context_length = context_length
        # What a challenge's prompt is longer than a draft's before there is a summary in it, by whether it shows the answer.
        self._added: dict[bool, int] = {}

    def require(self, job: Job, *, param: str) -> None:
        """Check that each stage of a job fits. `param` is the field that its problem came in.

        Raises:
            RequestError: one would not.
        """
        context, sampling, lineup = self._context_length, job.sampling, job.lineup
        if context is None:
            return
        num_prompt = len(job.prompts.draft(job.problem).token_ids)
        needs = {"draft" if lineup.has_challenge else "completion": (num_prompt, sampling.max_draft_tokens)}
        if lineup.has_challenge:
            shown = len(lineup.drafters) * sampling.max_summary_tokens
            needs["challenge"] = (
                num_prompt + self._added_by_challenge(job, num_prompt) + shown,
                sampling.max_challenge_tokens,
            )
        for stage, (prompt, cap) in needs.items():
            if prompt + cap > context:
                raise RequestError(
                    f"the {stage} needs {prompt} prompt + {cap} new = {prompt + cap} tokens, but the context holds {context}: "
                    "shorten the prompt or lower the caps on tokens",
                    param=param,
                    code="context_length_exceeded",
                )

    def _added_by_challenge(self, job: Job, num_plain: int) -> int:
        shows_answer = job.lineup.shows_answer
        if shows_answer not in self._added:
            challenge = job.prompts.challenge(job.problem, [replace(_NOTHING, shows_answer=shows_answer)])
            self._added[shows_answer] = len(challenge.token_ids) - num_plain
        return self._added[shows_answer]
