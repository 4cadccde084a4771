r"""The lenient reading: what a text states as its answer, for outputs that were not asked for a box or a tag.

Used by `agon verify --pairs` on whole outputs of foreign models, and never by training or evaluation, where text without its
mark earns nothing (docs/decisions/0006). The last statement counts, of these:

* a box, or an `<answer>` block; the last of them unfinished means no answer, as in the strict reading;
* what follows an answer phrase ("the answer is …", "Final answer: …", "the solution to … is …", "#### …", or "A: …" as
  the last line), to the end of its sentence.

Without any of these, the last sentence that starts with a conclusion ("Therefore …", "So, …"). From a sentence the one formula
between delimiters is taken, or else what follows its last "is", "are" or "equals"; what is left is compared as it stands, so that
two numbers are never one answer.
"""

from __future__ import annotations

import re

from agon.answers import ANSWER_OPEN, MAX_VISIBLE_CHARS, answer_spans, extract_answer, visible_text
from agon.records import AnswerStyle

MAX_STATEMENT_CHARS = 300

_STYLES: tuple[AnswerStyle, ...] = ("boxed", "tags")

_PHRASE = re.compile(
    r"(?<!#)####(?!#)[ \t]{0,4}"
    # Only as the last line: a list of choices has such lines too.
    r"|(?m:^)(?-i:A):[ \t]{0,4}(?=[^\n]{1,300}\s{0,9}\Z)"
    r"|\banswer\b(?:[ \t]{1,3}(?:to|of|for)[ \t][^.\n:=$\\]{0,60}?)?[\s*]{0,4}(?:(?:is|are|equals|would be|must be|should be)\b|:|=)[\s*:]{0,6}"
    r"|\bsolutions?\b(?:[ \t]{1,3}(?:to|of|for)[ \t][^.\n:=$\\]{0,60}?)?[\s*]{0,4}(?:is|are)\b[\s*:]{0,6}",
    re.IGNORECASE,
)
_CONCLUSION = re.compile(
    r"(?:\A\s{0,9}(?i:therefore|thus|hence|so)|\b(?:Therefore|Thus|Hence|So|Consequently|In conclusion))\b,?"
)
_END = re.compile(
    r"[.!?](?=\s|\Z)(?!\s?\d)|\n\n|<\||I hope\b|\b(?:because|since)\b|,\s(?:as|because|since)\b|\bis the (?:answer|solution|result)\b"
)
_SPAN = re.compile(r"\$\$[^$]{1,300}\$\$|\$[^$]{1,300}\$|\\\([^\n]{1,300}?\\\)|\\\[[^\]]{1,300}?\\\]")
_VERB = re.compile(r"(?<![A-Za-z\\])(?:is|are|equals|be)(?![A-Za-z])(?:\s(?:exactly|simply|approximately)\b)?")


def stated_answer(text: str) -> str | None:
    """Return what a foreign text states as its answer, None when it states nothing or its last box is unfinished."""
    visible = visible_text(text)[-MAX_VISIBLE_CHARS:]
    ends = [end for style in _STYLES for _, end in answer_spans(visible, style)]
    phrase = next(
        reversed([match for match in _PHRASE.finditer(visible) if match.start() >= max(ends, default=0)]), None
    )
    stated = _stated(visible, phrase.end()) if phrase else None
    if stated is not None:
        return stated
    if ends:
        return extract_answer(visible, "tags" if ANSWER_OPEN in visible else "boxed")
    conclusions = list(_CONCLUSION.finditer(visible))
    return _stated(visible, conclusions[-1].end()) if conclusions else None


def _stated(text: str, start: int) -> str | None:
    """The value that the sentence from `start` on states."""
    sentence = text[start : start + MAX_STATEMENT_CHARS].lstrip(" \t\n*:")
    if not sentence.startswith((r"\[", "$$")):
        sentence = sentence.split("\n", 1)[0]
    end = _END.search(sentence)
    sentence = (sentence[: end.start()] if end else sentence).strip(' \t\n*:"')
    spans = _SPAN.findall(sentence)
    verbs = list(_VERB.finditer(sentence))
    if verbs and (after := sentence[verbs[-1].end() :].strip(" :*")):
        sentence = after
        spans = _SPAN.findall(sentence)
    if len(spans) == 1 and not re.search(r"\d", sentence.replace(spans[0], "")):
        return spans[0]
    return sentence.strip(" *") or None
