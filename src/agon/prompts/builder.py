"""Problems and summaries turned into token ids. The only caller of the chat template."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agon.errors import ConfigError, ModelError
from agon.prompts.marks import without_marks
from agon.prompts.wordings import WORDINGS, Aim
from agon.records import AnswerStyle, Problem, Prompt, Summary


class PromptBuilder:
    r"""Writes draft and challenge prompts in one wording for one tokenizer.

    One user turn, no system turn (some templates have none). The template tokenizes once, so that the beginning-of-sequence token
    is there exactly as often as the template says. A base without a chat template reads `{text}\n\nSolution:\n`, with the
    special tokens its tokenizer adds. What problems and rivals say is stripped of the tokenizer's special tokens: a draft cannot
    close the user turn of its challenger. Every prompt ends with the `aim` where the wording can state one.

    Raises:
        ConfigError: the wording is unknown, or the thinking switch is set for a template that has none.
        ModelError: the template starts the prompt with two beginning-of-sequence tokens, or cannot be rendered.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        wording: str,
        style: AnswerStyle,
        enable_thinking: bool | None = None,
        aim: Aim | None = None,
    ) -> None:
        if wording not in WORDINGS:
            raise ConfigError(f"task.wording is {wording!r}, which is not known; known: {', '.join(WORDINGS)}")
        template = getattr(tokenizer, "chat_template", None)
        if enable_thinking is not None and "enable_thinking" not in str(template or ""):
            raise ConfigError(
                f"model.enable_thinking is {str(enable_thinking).lower()}, but this model's chat template has no such switch: "
                "leave it out"
            )
        self._tokenizer = tokenizer
        self._wording = WORDINGS[wording]
        self._style: AnswerStyle = style
        states = self._wording.aim
        self._ending = f"\n\n{states(aim)}" if aim is not None and states is not None else ""
        self._switches: dict[str, bool] = {} if enable_thinking is None else {"enable_thinking": enable_thinking}
        self._has_template = bool(template)
        self._special = sorted({str(token) for token in tokenizer.all_special_tokens} - {""}, key=len, reverse=True)
        self._special_at_end = re.compile(rf"(?:{'|'.join(map(re.escape, self._special))})\Z")

    def draft(self, problem: Problem) -> Prompt:
        """Ask for a solution of a problem."""
        return self._render(self._wording.draft(self._cleaned(problem), self._style))

    def challenge(self, problem: Problem, summaries: Sequence[Summary]) -> Prompt:
        """Ask for a solution of a problem by one who reads the summaries of one or more rivals."""
        assert summaries, "a challenge needs at least one summary"
        shown = [replace(summary, text=self._without_special(summary.text)) for summary in summaries]
        return self._render(self._wording.challenge(self._cleaned(problem), shown, self._style))

    def _cleaned(self, problem: Problem) -> Problem:
        return replace(problem, question=self._without_special(problem.question))

    def _without_special(self, text: str) -> str:
        if not any(token in text for token in self._special):
            return text
        last_characters = {token[-1] for token in self._special}
        return without_marks(text, self._special_at_end, last_characters=last_characters, longest=len(self._special[0]))

    def _render(self, question: str) -> Prompt:
        text = question + self._ending
        ids = self._template_ids(text) if self._has_template else self._tokenizer(f"{text}\n\nSolution:\n")["input_ids"]
        token_ids = tuple(int(token) for token in ids)
        bos = self._tokenizer.bos_token_id
        if bos is not None and token_ids[:2] == (bos, bos):
            raise ModelError(
                f"the prompt starts with two beginning-of-sequence tokens ({self._tokenizer.bos_token!r}): "
                "the chat template writes one and the tokenizer adds another; mend tokenizer_config.json"
            )
        return Prompt(token_ids, self._tokenizer.decode(list(token_ids)))

    def _template_ids(self, text: str) -> Sequence[int]:
        messages = [{"role": "user", "content": text}]
        try:
            encoded = self._tokenizer.apply_chat_template(
                messages, tokenize=True, add_generation_prompt=True, return_dict=False, **self._switches
            )
        except Exception as error:  # a template is a program of its own: jinja2, and whatever it raises on purpose
            raise ModelError(
                f"the chat template of this tokenizer fails ({error}): mend tokenizer_config.json"
            ) from error
        return encoded["input_ids"] if isinstance(encoded, Mapping) or hasattr(encoded, "input_ids") else encoded
