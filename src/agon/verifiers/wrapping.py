r"""What stands around a whole answer and says nothing: boxes, delimiters, bold, colour, an environment, "the answer is". Pure text."""

from __future__ import annotations

import re

from agon.answers import unwrap_boxes

_MAX_WRAPPERS = 6

_INVISIBLE: dict[int, int | None] = dict.fromkeys((0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2060, 0xFEFF, 0x00AD))
_COLOUR = re.compile(r"\\(?:text)?color(?:\[[A-Za-z]{1,10}\])?\s?\{[^{}]{1,40}\}\s?(\{)?")
_BOLD = re.compile(r"\\(?:boldsymbol|bm|pmb|underline|mathbf|bf|emph|ensuremath|mathstrut)(?![A-Za-z])\s?")
_INNER_BOLD = re.compile(r"\\(?:boldsymbol|bm|pmb|underline)(?![A-Za-z])")
_ENVIRONMENT = re.compile(
    r"\\begin\s?\{(aligned|align\*?|gathered|gather\*?|split|equation\*?)\}(.*)\\end\s?\{\1\}", re.DOTALL
)
_PHRASE = (
    r"(?:(?:so|thus|hence|therefore),?\s)?(?:(?:the|our|my)\s)?(?:(?:final|correct|right|required)\s)?(?:answer|solution|result)"
    r"(?:\s(?:is|are|equals|would\sbe)\s?:?|\s?[:=])"
)
_ANNOUNCED = re.compile(rf"\\(?:text|textbf|textrm|mathrm|mbox)\s?\{{\s?{_PHRASE}\s?\}}\s*(?=\S)", re.IGNORECASE)
_ANNOUNCED_INSIDE = re.compile(
    rf"(\\(?:text|textbf|textrm|mathrm|mbox)\s?\{{)\s?{_PHRASE}\s?(?=[^\s}}])", re.IGNORECASE
)
_ANNOUNCED_BARE = re.compile(rf"{_PHRASE}\s?(?=\S)", re.IGNORECASE)
_MARKS = ("`", "*", "_")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)


def without_wrapping(text: str) -> str:
    """Return an answer without what stands around the whole of it, and without characters that have no width."""
    text = unwrap_boxes(text.translate(_INVISIBLE))
    text = _COLOUR.sub(lambda match: r"\boldsymbol{" if match[1] else "", text)
    for _ in range(_MAX_WRAPPERS):
        inner = _unwrapped_once(text)
        if inner == text:
            break
        text = unwrap_boxes(inner)
    return _INNER_BOLD.sub("", text)


def _unwrapped_once(text: str) -> str:
    text = text.strip()
    if (bold := _BOLD.match(text)) and text[bold.end() :].startswith("{") and _closes_at_end(text, bold.end()):
        return text[bold.end() + 1 : -1]
    if environment := _ENVIRONMENT.fullmatch(text):
        rows = environment[2].strip().removesuffix(r"\\").strip()
        if rows.startswith(r"\begin"):
            return rows
        if r"\\" not in rows:
            return rows.replace("&", "")
    for mark in _MARKS:
        inner = text.strip(mark)
        if text.startswith(mark) and text.endswith(mark) and inner and mark not in inner:
            return inner
    if text.startswith("$") and text.endswith("$") and (inner := text.strip("$")) and "$" not in inner:
        return inner
    for phrase in (_ANNOUNCED, _ANNOUNCED_BARE):
        if match := phrase.match(text):
            return text[match.end() :]
    if match := _ANNOUNCED_INSIDE.match(text):
        return match[1] + text[match.end() :]
    return text


def _closes_at_end(text: str, opening: int) -> bool:
    """Whether the brace at `opening` is closed by the last character."""
    depth = 0
    for brace in _BRACE.finditer(text, opening):
        depth += (brace.group() == "{") - (brace.group() == "}")
        if depth == 0:
            return brace.end() == len(text)
    return False
