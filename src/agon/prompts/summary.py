"""What a challenger sees of a draft: the text after its reasoning, the answer withheld, cut from the front."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from agon.answers import extract_answer, visible_text
from agon.countdown_text import parse_tries, render_tries, withhold_hits
from agon.prompts.withhold import WITHHELD, Withheld, is_readable, withhold_answer, without_withheld
from agon.prompts.withhold_code import shows_code, withhold_code
from agon.prompts.wordings import NO_SUMMARY
from agon.records import AnswerStyle, Completion, Problem, Summary, Withholding

# Only the tail of a longer text is read: the front would be cut anyway.
_MAX_CHARS = 60_000
_MOVES = re.compile(r"\(([a-z])([-+*])([a-z])\)([-+*])([a-z])")
_BLANK = re.compile(r"[\W_]*")

NOTHING_READ = Summary(NO_SUMMARY, is_empty=True, has_leak=False, num_withheld=0)
"""What stands for a draft that left nothing, or that is not to be seen."""


def summarize(
    problem: Problem,
    completion: Completion,
    *,
    style: AnswerStyle,
    tokenizer: Any,
    max_tokens: int,
    shows_answer: bool = False,
    withholding: Withholding = "mark",
) -> Summary:
    """Return what a challenger may read of a draft: the answer withheld, or with `shows_answer` left where it stands.

    A withheld answer leaves the mark `[withheld]` in its place, or with `withholding="drop"` its whole sentence goes.

    A truncated draft, or one that leaves nothing to read, becomes the fixed text `(no summary)`. `has_leak` says of both whether the
    answer can be read in what is shown; where it is shown on purpose, that is how often there was one to see.

    Units: `max_tokens` counts the challenger's tokens; the front is cut, since drafts end with what they established.
    """
    visible = "" if completion.is_truncated else visible_text(completion.text)[-_MAX_CHARS:].strip()
    text, num_withheld, answer = _withhold(problem, visible, style)
    if shows_answer:
        text, num_withheld = _with_answer(problem, visible), 0
    elif withholding == "drop":
        text = without_withheld(text)
    if _BLANK.fullmatch(text.replace(WITHHELD, "")):
        return replace(NOTHING_READ, num_withheld=num_withheld)
    shown, num_tokens = _cut(text.strip(), tokenizer, max_tokens)
    return Summary(
        text=shown,
        is_empty=False,
        has_leak=_has_leak(problem, shown, answer, style),
        num_withheld=num_withheld,
        num_tokens=num_tokens,
        is_cut=len(shown) < len(text.strip()),
        shows_answer=shows_answer,
    )


@dataclass(frozen=True, slots=True)
class DraftSummarizer:
    """Summarises the drafts of whoever answers in one style, with lengths in the tokens of one tokenizer."""

    style: AnswerStyle
    tokenizer: Any
    withholding: Withholding = "mark"

    def summarize(
        self, problem: Problem, completion: Completion, *, max_tokens: int, shows_answer: bool = False
    ) -> Summary:
        """Return what `summarize` makes of a draft."""
        return summarize(
            problem,
            completion,
            style=self.style,
            tokenizer=self.tokenizer,
            max_tokens=max_tokens,
            shows_answer=shows_answer,
            withholding=self.withholding,
        )


def _with_answer(problem: Problem, visible: str) -> str:
    """The tries are written as when some are withheld, so that only the hit makes the difference."""
    return render_tries(parse_tries(visible)) if problem.summary_style == "tries" else visible


def _withhold(problem: Problem, visible: str, style: AnswerStyle) -> Withheld:
    if problem.summary_style == "tries":
        return _withhold_tries(problem, visible, style)
    return withhold_code(visible, problem.question) if style == "code" else withhold_answer(visible, style)


def _has_leak(problem: Problem, shown: str, answer: str | None, style: AnswerStyle) -> bool:
    if problem.summary_style == "tries":
        return _shows_a_hit(problem, shown)
    return shows_code(shown, answer, problem.question) if style == "code" else is_readable(shown, answer)


def _withhold_tries(problem: Problem, visible: str, style: AnswerStyle) -> Withheld:
    """Tries that hit the target are taken out; a failed answer stays, since that it failed is what a rival is read for."""
    answer = extract_answer(visible, style)
    expression = "".join(answer.split()) if answer else None
    is_hit = expression is not None and _value(problem, expression) == problem.details["target"]
    kept, num_withheld = withhold_hits(visible, target=problem.details["target"], answer=expression if is_hit else None)
    return Withheld(kept, num_withheld, expression)


def _shows_a_hit(problem: Problem, shown: str) -> bool:
    return any(_value(problem, item.expression) == problem.details["target"] for item in parse_tries(shown))


def _value(problem: Problem, expression: str) -> int | None:
    """What two moves such as `(a-b)*c` come to; None for any other text."""
    moves = _MOVES.fullmatch(expression)
    if moves is None:
        return None
    numbers = dict(zip("abcdefgh", problem.details["numbers"], strict=False))
    left, first, right, second, last = moves.groups()
    if not {left, right, last} <= numbers.keys():
        return None
    return _apply(second, _apply(first, numbers[left], numbers[right]), numbers[last])


def _apply(operator: str, left: int, right: int) -> int:
    return {"+": left + right, "-": left - right, "*": left * right}[operator]


def _cut(text: str, tokenizer: Any, max_tokens: int) -> tuple[str, int]:
    """Cut the front until the text, tokenized anew, has at most `max_tokens` tokens."""
    encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    num_tokens = len(encoding["input_ids"])
    while num_tokens > max_tokens:
        offsets = encoding["offset_mapping"]
        # At least one character goes each time: a cut may split a token into several.
        text = text[max(int(offsets[num_tokens - max_tokens][0]), 1) :].lstrip()
        encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        num_tokens = len(encoding["input_ids"])
    return text, num_tokens
