r"""Where the reasoning ends, what the final answer is, and whether a completion is well-formed.

Three answer styles: `tags` (`<think>…</think>` summary `<answer>…</answer>`), `boxed` (`\boxed{…}`) and `code` (a program in a fenced
block, by the rules of `agon.code_text`). One stage extracts, for every reader: verifiers, summaries and the report.

The rules:

* Reasoning ends at the last `</think>` (or `<channel|>`, the mark of Gemma 4). The opening mark may stand in the prompt (some chat
  templates put it there), so a lone `</think>` counts. Without any mark the whole text is visible. A `<think>` that is not closed
  leaves nothing visible, wherever it stands. Only these marks, written so, are reasoning: `<thinking>` and `<THINK>` are text.
* Nothing in the reasoning counts.
* `tags`: the last `<answer>` block counts; if it is not closed there is no answer. A box inside the block is unwrapped.
* `boxed`: the last mark of a box counts; if that box is not closed there is no answer, whatever stood before. An earlier box that is
  never closed hides nothing: `\boxed{a so \boxed{b}.` is `b`. Boxes joined by nothing but a comma,
  "and" or "or" are one list (`\boxed{1} and \boxed{2}` is `1, 2`), so naming several values is never a free guess.
* `\boxed`, `\fbox` and `\boxed` with spaces before the brace are the same; nested boxes are unwrapped (`\boxed{\boxed{42}}` is `42`).

Everything runs in time linear in the text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from agon.code_text import code_spans, extract_code, has_program_form
from agon.records import AnswerStyle

THINK_OPEN, THINK_CLOSE = "<think>", "</think>"
_REASONING_OPENS = (THINK_OPEN, "<|channel>thought")
_REASONING_CLOSES = (THINK_CLOSE, "<channel|>")
ANSWER_OPEN, ANSWER_CLOSE = "<answer>", "</answer>"

# Only the tail of a longer visible text is read: a final answer stands at the end.
MAX_VISIBLE_CHARS = 200_000

_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])[ \t\n]{0,8}(?:\{|\Z)")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_LIST_GLUE = re.compile(r"(?:\\text|\\quad|\\qquad|\\[,;:! ()\[\]]|and|or|[,;&{}$\s])*", re.IGNORECASE)
_HAS_CONNECTOR = re.compile(r",|;|&|\band\b|\bor\b", re.IGNORECASE)
_MATH_DELIMITERS = (("$$", "$$"), ("$", "$"), (r"\[", r"\]"), (r"\(", r"\)"))
# Each level is one more pass over the text: thousands of nested boxes would take minutes.
_MAX_NESTED_BOXES = 8


class _Box(NamedTuple):
    start: int
    content_start: int
    content_end: int
    end: int
    is_closed: bool


def reasoning_end(text: str) -> int:
    """Return the position at which the visible text starts: 0 without reasoning, `len(text)` if it was never closed."""
    closed = max(text.rfind(mark) + len(mark) if mark in text else 0 for mark in _REASONING_CLOSES)
    opened = max(text.rfind(mark) for mark in _REASONING_OPENS)
    return len(text) if opened >= closed and opened >= 0 else closed


def visible_text(text: str) -> str:
    """Return what stands after the reasoning: the only part that is read for an answer or shown to a rival."""
    return text[reasoning_end(text) :]


def extract_answer(text: str, style: AnswerStyle) -> str | None:
    """Return the final answer as written, its wrapper removed, or None when there is none that is finished and not blank."""
    visible = visible_text(text)[-MAX_VISIBLE_CHARS:]
    match style:
        case "tags":
            answer = _last_block(visible)
        case "boxed":
            answer = _last_box(visible)
        case "code":
            answer = extract_code(visible)
    return answer or None


def answer_spans(text: str, style: AnswerStyle) -> list[tuple[int, int]]:
    """Return (start, end) of every answer mark in the visible text, wrapper included, in order and without overlap.

    A mark that is not closed reaches to the end of the text.
    """
    start = reasoning_end(text)
    visible = text[start:]
    match style:
        case "tags":
            spans = _block_spans(visible)
        case "boxed":
            spans = [(box.start, box.end) for box in _boxes(visible)]
        case "code":
            spans = code_spans(visible)
    return [(start + first, start + last) for first, last in spans]


def format_score(text: str, style: AnswerStyle, *, is_truncated: bool) -> float:
    r"""Return phi of a completion: 1.0 if it has the form that the prompt asks for, else 0.0. A truncated one has not.

    `tags`: reasoning closed exactly once, with nothing before it (the opening mark may stand in the prompt); then a summary that is
    not blank; then one answer block that is not blank, and nothing after it. The summary is part of the form because the rival
    reads it. `boxed`: a finished box that is not blank after the reasoning. `code`: after it, a closed block tagged as Python.

    Paper: arXiv:2607.07690 names a format reward on `<think>`/`<answer>`; its exact test is unknown, so this one is ours.
    """
    if is_truncated:
        return 0.0
    if extract_answer(text, style) is None:
        return 0.0
    if style == "boxed":
        return 1.0
    if style == "code":
        return float(has_program_form(visible_text(text)[-MAX_VISIBLE_CHARS:]))
    before, closed, visible = text.partition(THINK_CLOSE)
    reasoning = before.lstrip().removeprefix(THINK_OPEN)
    summary, opened, rest = visible.partition(ANSWER_OPEN)
    answer, ended, after = rest.partition(ANSWER_CLOSE)
    marks = (THINK_OPEN, THINK_CLOSE, ANSWER_OPEN, ANSWER_CLOSE)
    is_single = THINK_OPEN not in reasoning and not any(mark in part for part in (summary, answer) for mark in marks)
    is_whole = bool(closed and opened and ended) and not after.strip()
    return float(is_single and is_whole and bool(summary.strip()))


def unwrap_boxes(answer: str) -> str:
    """Remove boxes (and math delimiters around them) that wrap the whole answer. What has no box comes back stripped."""
    for _ in range(_MAX_NESTED_BOXES):
        answer = answer.strip()
        inner = _without_delimiters(answer)
        box = _BOX.match(inner)
        if box is None or _closing_brace(inner, box.end()) != len(inner):
            break
        answer = inner[box.end() : -1]
    return answer.strip()


def has_balanced_braces(text: str) -> bool:
    """Tell whether every brace that is not escaped has its other half."""
    depth = 0
    for token in _BRACE.finditer(text):
        depth += (token.group() == "{") - (token.group() == "}")
        if depth < 0:
            return False
    return depth == 0


def _without_delimiters(text: str) -> str:
    for first, last in _MATH_DELIMITERS:
        if len(text) > len(first) + len(last) and text.startswith(first) and text.endswith(last):
            return text[len(first) : -len(last)].strip()
    return text


def _last_block(visible: str) -> str | None:
    opened = visible.rfind(ANSWER_OPEN)
    if opened < 0:
        return None
    closed = visible.find(ANSWER_CLOSE, opened)
    if closed < 0:
        return None
    content = visible[opened + len(ANSWER_OPEN) : closed]
    return (_last_box(content) or "") if _BOX.search(content) else content.strip()


def _last_box(visible: str) -> str | None:
    boxes = _boxes(visible)
    if not boxes or not boxes[-1].is_closed:
        return None
    first = len(boxes) - 1
    while (
        first > 0 and boxes[first - 1].is_closed and _is_list_glue(visible[boxes[first - 1].end : boxes[first].start])
    ):
        first -= 1
    values = [unwrap_boxes(visible[box.content_start : box.content_end]) for box in boxes[first:]]
    # The same value boxed twice is said twice, not a list.
    return ", ".join(dict.fromkeys(value for value in values if value))


def _is_list_glue(glue: str) -> bool:
    return len(glue) <= 40 and _LIST_GLUE.fullmatch(glue) is not None and _HAS_CONNECTOR.search(glue) is not None


def _boxes(text: str) -> list[_Box]:
    """Outermost boxes in order; one that is not closed reaches to the next, or to the end."""
    closings = _closing_braces(text)
    boxes: list[_Box] = []
    position = 0
    while opening := _BOX.search(text, position):
        end = closings.get(opening.end() - 1)
        position = opening.end() if end is None else end
        if end is None:
            following = _BOX.search(text, position)
            reach = following.start() if following else len(text)
            boxes.append(_Box(opening.start(), opening.end(), reach, reach, is_closed=False))
        else:
            boxes.append(_Box(opening.start(), opening.end(), end - 1, end, is_closed=True))
    return boxes


def _closing_braces(text: str) -> dict[int, int]:
    """For each opening brace that is closed, the position after the brace that closes it; escaped braces do not count."""
    closings: dict[int, int] = {}
    opened: list[int] = []
    for token in _BRACE.finditer(text):
        if token.group() == "{":
            opened.append(token.start())
        elif token.group() == "}" and opened:
            closings[opened.pop()] = token.end()
    return closings


def _closing_brace(text: str, position: int) -> int | None:
    """Position after the brace that closes the one just before `position`; escaped braces do not count."""
    depth = 1
    for token in _BRACE.finditer(text, position):
        if token.group() == "{":
            depth += 1
        elif token.group() == "}":
            depth -= 1
            if depth == 0:
                return token.end()
    return None


def _block_spans(visible: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    position = 0
    while (opened := visible.find(ANSWER_OPEN, position)) >= 0:
        closed = visible.find(ANSWER_CLOSE, opened)
        position = len(visible) if closed < 0 else closed + len(ANSWER_CLOSE)
        spans.append((opened, position))
    return spans
