"""Compare what a program printed with what it should print, by the rule that the problem names.

* `lines` (the default): line by line, without regard to blanks at the end of a line, to newlines at the end, and to CRLF. Blank lines
  before or between, spaces inside a line and letter case count.
* `tokens`: word by word, whatever blanks and newlines stand between them.
* with a tolerance: words, and where a plain decimal number is wanted, a plain decimal number within `tolerance`, absolutely or
  relative to the wanted one. `nan`, `inf`, hexadecimal and digits with underscores are words.
"""

from __future__ import annotations

import re
from itertools import zip_longest

from agon.program_tests import Comparison

_NUMBER = re.compile(r"[+-]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][+-]?\d{1,3})?", re.ASCII)
_SHOWN_CHARS = 60


def difference(expected: str, printed: str, *, comparison: Comparison, tolerance: float | None) -> str | None:
    """Return the first difference in words, None if the output is right."""
    if tolerance is not None:
        return _other_word(expected, printed, tolerance)
    if comparison == "tokens":
        return _other_word(expected, printed, None)
    return _other_line(expected, printed)


def brief(text: str) -> str:
    """Return a text as it is shown in a reason: quoted, on one line, of bounded length."""
    return repr(text) if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]!r}… ({len(text):,} characters)"


def _other_line(expected: str, printed: str) -> str | None:
    wanted, found = _lines(expected), _lines(printed)
    for number, (first, second) in enumerate(zip_longest(wanted, found), 1):
        if first != second:
            return f"line {number}: expected {_or_end(first)}, got {_or_end(second)}"
    return None


def _lines(text: str) -> list[str]:
    # split at newlines alone: str.splitlines would also split at form feeds and U+2028
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _other_word(expected: str, printed: str, tolerance: float | None) -> str | None:
    for number, (first, second) in enumerate(zip_longest(expected.split(), printed.split()), 1):
        if first != second and not (first and second and tolerance and _is_near(first, second, tolerance)):
            return f"word {number}: expected {_or_end(first)}, got {_or_end(second)}"
    return None


def _is_near(wanted: str, found: str, tolerance: float) -> bool:
    if not (_NUMBER.fullmatch(wanted) and _NUMBER.fullmatch(found)):
        return False
    first, second = float(wanted), float(found)
    # a number too large for a float is infinite, and the gap then not a number: never near
    return abs(first - second) <= tolerance * max(1.0, abs(first)) < float("inf")


def _or_end(part: str | None) -> str:
    return "the end" if part is None else brief(part)
