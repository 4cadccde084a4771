"""Take the program out of a text without touching the words.

Taken out are all code blocks, whatever their tag (or unfenced code to the end), and after that every line that is a line of the program:
one long enough to tell something, which the question does not already show. What of the program stays readable inside a sentence is
counted as a leak, not deleted.
"""

from __future__ import annotations

import re

from agon.answers import answer_spans, extract_answer
from agon.prompts.withhold import WITHHELD, Withheld

# Shorter lines (`return x`, `n = 0`) are in almost every program.
_LEAST_CHARS = 12
_COMMON = re.compile(r"(?:import|from|def|class|#|\"\"\"|'''|@|if __name__)")
_SIGNS = re.compile(r"[=(\[+*/%<>]")


def withhold_code(text: str, question: str) -> Withheld:
    """Take the program out of a visible text."""
    program = extract_answer(text, "code")
    pieces: list[str] = []
    position = 0
    spans = answer_spans(text, "code")
    for start, end in spans:
        pieces += [text[position:start], WITHHELD]
        position = end
    own = _telling_lines(program, question)
    num_lines = 0
    kept: list[str] = []
    for line in ("".join(pieces) + text[position:]).split("\n"):
        is_own = _spaceless(line) in own
        num_lines += is_own
        kept.append(WITHHELD if is_own else line)
    return Withheld("\n".join(kept), len(spans) + num_lines, program)


def shows_code(shown: str, program: str | None, question: str) -> bool:
    """Tell whether a line of the program that the question does not show can be read in a text, whatever its spacing."""
    spaceless = _spaceless(shown)
    return any(line in spaceless for line in _telling_lines(program, question))


def _telling_lines(program: str | None, question: str) -> set[str]:
    given = _spaceless(question)
    lines = [line.strip() for line in (program or "").split("\n")]
    telling = {_spaceless(line) for line in lines if not _COMMON.match(line) and _SIGNS.search(line)}
    return {line for line in telling if len(line) >= _LEAST_CHARS and line not in given}


def _spaceless(text: str) -> str:
    return "".join(text.split())
