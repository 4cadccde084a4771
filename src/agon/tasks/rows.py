r"""Rows turned into problems by written rules.

Question: text that is not blank, or a chat with one user turn. Answer: text or a number; 7 and 7.0 are `7`; true, null, lists and
objects are refused. In an answer that is a whole solution the gold is what stands after the last `####`, or in the last box. A gold
that its own verifier could not read is refused: it could never be answered right.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agon.answers import extract_answer, has_balanced_braces
from agon.numerals import only_number, read_number
from agon.records import Problem
from agon.tasks.table import shown

# What a verifier needs of a row besides the gold answer.
VERIFIER_COLUMNS = {
    "expression": ("numbers", "target", "smallest", "largest"),
    "reasoning-gym": ("family", "size", "seed", "index"),
}
_NEEDED = {"expression": ("numbers", "target"), "reasoning-gym": ("family", "size", "seed", "index")}

_SURROGATE = re.compile(r"[\ud800-\udfff]")
_LEVEL = re.compile(r"(?:level\s*)?([+-]?\d+(?:\.\d+)?)", re.IGNORECASE)
_GUESSABLE = re.compile(r"(?:\\text\{)?\s*(?:yes|no|true|false)\s*\}?\.?", re.IGNORECASE)
_LATEX_SPACING = re.compile(r"\\(?:left|right|displaystyle)(?![a-z])|\\[,;:! ]|\\q?quad|[$~\s]")


class Columns(NamedTuple):
    """Which column of a source holds what."""

    question: str
    answer: str
    level: str | None


class UnusableRow(Exception):
    """A row that cannot be turned into a problem; the text says why."""


def problem_of(
    row: Mapping[str, Any], columns: Columns, *, kept: Sequence[str] = (), task: str, verifier: str
) -> Problem:
    """Turn the values of a row into a problem, those of the columns `kept` into its details.

    Raises:
        UnusableRow: a value is missing or of the wrong kind.
    """
    question = _question(row.get(columns.question), columns.question)
    gold = _gold(row.get(columns.answer), columns.answer, verifier)
    details = {
        name: _plain(row[name], name)
        for name in (*VERIFIER_COLUMNS.get(verifier, ()), *kept)
        if row.get(name) is not None
    }
    if not set(_NEEDED.get(verifier, ())) <= details.keys():
        raise UnusableRow(f"no {' and '.join(map(repr, _NEEDED[verifier]))}, which the {verifier} verifier needs")
    return Problem(
        id=content_id(question),
        question=question,
        gold=gold,
        task=task,
        verifier=verifier,
        summary_style="tries" if verifier == "expression" else "text",
        level=_level(row.get(columns.level)) if columns.level else None,
        details=details,
    )


def question_of(row: Mapping[str, Any], column: str, *, task: str) -> Problem:
    """Return a problem of which the question alone is known: it can be compared, and neither asked nor judged.

    Raises:
        UnusableRow: there is no text.
    """
    question = _question(row.get(column), column)
    return Problem(id=content_id(question), question=question, gold="", task=task, verifier="")


def content_id(question: str) -> str:
    r"""Return the hash of a question that is the same whatever its case, spacing, unicode form and LaTeX style (`\dfrac`, `\left`)."""
    text = unicodedata.normalize("NFKC", question).casefold()
    text = _LATEX_SPACING.sub("", re.sub(r"\\[dtc]frac", r"\\frac", text))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_guessable(gold: str) -> bool:
    """Tell whether an answer is yes, no, true or false."""
    return _GUESSABLE.fullmatch(gold.strip()) is not None


def _question(value: Any, column: str) -> str:
    if isinstance(value, list):
        value = _user_turn(value)
    if not isinstance(value, str):
        raise UnusableRow(f"{column!r} is {shown(value)}, where text is wanted")
    text = value.strip()
    if not text:
        raise UnusableRow(f"{column!r} is blank")
    return _whole(text, column)


def _user_turn(turns: list[Any]) -> Any:
    texts = [turn.get("content") for turn in turns if isinstance(turn, dict) and turn.get("role") == "user"]
    return texts[0] if len(texts) == 1 else turns


def _gold(value: Any, column: str, verifier: str) -> str:
    text = answer_text(value, column)
    if "####" in text and verifier != "reasoning-gym":
        text = text.rpartition("####")[2].strip()
    elif verifier in ("math", "numeric") and re.search(r"\\(?:boxed|fbox)", text):
        text = extract_answer(text, "boxed") or ""
    elif column == "solution":
        raise UnusableRow(f"{column!r} has no boxed answer")
    if not text.strip("$ \t\n."):
        raise UnusableRow(f"{column!r} is blank, or holds no finished answer")
    if verifier == "numeric" and (read_number(text) or only_number(text)) is None:
        raise UnusableRow(f"{column!r} is {shown(text)}, where a number is wanted")
    if verifier == "math" and not has_balanced_braces(text):
        raise UnusableRow(f"{column!r} is {shown(text)}, whose braces do not balance")
    return _whole(text, column)


def answer_text(value: Any, column: str) -> str:
    """Return an answer as text: 7, 7.0 and "7" are `7`.

    Raises:
        UnusableRow: it is neither text nor a finite number.
    """
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return str(int(value)) if value.is_integer() else repr(value)
    raise UnusableRow(f"{column!r} is {shown(value)}, where text or a number is wanted")


def _plain(value: Any, column: str) -> Any:
    """Refuse what the saved matches could not hold."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise UnusableRow(f"{column!r} is {shown(value)}, which JSON does not have") from None
    return value


def _level(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if math.isfinite(value) else None
    match = _LEVEL.fullmatch(value.strip()) if isinstance(value, str) else None
    return float(match[1]) if match else None


def _whole(text: str, column: str) -> str:
    if half := _SURROGATE.search(text):
        raise UnusableRow(f"{column!r} holds half a surrogate pair (U+{ord(half.group()):04X})")
    return text
