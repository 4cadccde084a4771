"""The exact symbols of countdown-lite: what a question, a list of tries and a challenge look like as text.

The embedded base was trained on these strings, so tasks, prompts, verifiers and the script that builds the base all take
them from here. A question names three numbers by slot and the target: `a 12 b 7 c 5 =24`. A try is a first move, a second
move and the value they come to: `(a-b) *c =25`; a value below 0 or above 32 is `=out`, and a first move that is already out
has no second: `(a*b) =out`. Tries are joined by ` ; `.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

SLOTS = ("a", "b", "c")
RIVAL = "rival"
NO_SUMMARY = "none"
OUT_OF_RANGE = "out"
LARGEST_NUMBER = 15
LARGEST_VALUE = 32

FIRST_MOVES = ("(a+b)", "(a-b)", "(a*b)", "(a+c)", "(a-c)", "(a*c)", "(b+c)", "(b-c)", "(b*c)")
"""Slots hold the numbers in falling order, so the three subtractions the other way round would be negative and are no moves."""
SECOND_MOVES = ("+a", "-a", "*a", "+b", "-b", "*b", "+c", "-c", "*c")

_OPERAND = r"(?:[abc]|\d{1,4})"
_TRY = re.compile(
    rf"(?P<first>\(\s*{_OPERAND}\s*[-+*]\s*{_OPERAND}\s*\))"
    rf"\s*(?P<second>[-+*]\s*{_OPERAND})?"
    rf"\s*=\s*(?P<value>\d{{1,4}}|{OUT_OF_RANGE})"
)


class Try(NamedTuple):
    """An expression that was tried, without spaces, and the value it was said to have (None: out of range)."""

    expression: str
    value: int | None


def draft_question(numbers: Sequence[int], target: int) -> str:
    """Write a problem as the base reads it."""
    slots = " ".join(f"{slot} {number}" for slot, number in zip(SLOTS, numbers, strict=True))
    return f"{slots} ={target}"


def challenge_question(question: str, summary_texts: Iterable[str]) -> str:
    """Put after a question what each rival tried; a summary with nothing in it is shown as the symbol `none`."""
    rivals = [f"{RIVAL} {text.strip() or NO_SUMMARY}" for text in summary_texts]
    return " ".join([question, *rivals])


def parse_tries(summary_text: str) -> list[Try]:
    """Read the tries out of a summary in the order written; text that is not an expression with its value is left out."""
    return [_read(match) for match in _TRY.finditer(summary_text)]


def render_tries(tries: Iterable[Try]) -> str:
    """Write tries as a summary, the inverse of `parse_tries`."""
    return " ; ".join(_write(item) for item in tries)


def withhold_hits(summary_text: str, *, target: int, answer: str | None = None) -> tuple[str, int]:
    """Return what a challenger may read of a summary, and how many tries were taken out.

    Taken out are the tries said to come to the target. A failed answer stays: that it failed is what a rival is read for. Give
    `answer` only where it was judged right: the try of that expression goes too, even if the draft noted a wrong value for it.
    The text is written anew from the tries that can be read, so that nothing else gets through; it is empty when none is left.
    """
    tries = parse_tries(summary_text)
    right = "".join(answer.split()) if answer else None
    kept = [item for item in tries if item.value != target and item.expression != right]
    return render_tries(kept), len(tries) - len(kept)


def _read(match: re.Match[str]) -> Try:
    expression = "".join((match["first"] + (match["second"] or "")).split())
    return Try(expression, None if match["value"] == OUT_OF_RANGE else int(match["value"]))


def _write(item: Try) -> str:
    first, closing, second = item.expression.partition(")")
    value = OUT_OF_RANGE if item.value is None else str(item.value)
    return " ".join(part for part in (first + closing, second, f"={value}") if part)
