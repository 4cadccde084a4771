"""Checks an arithmetic expression: does it come to the target, each given number used exactly once, no value out of range.

The expression is model text: it is read by the small parser below and never by Python's own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from agon.records import Problem, Verdict

SMALLEST_VALUE = 0
LARGEST_VALUE = 32

# Three numbers and two operators need far less: what is longer is no answer, and cannot make the parser deep.
_MAX_CHARS = 100
_SIGNS = str.maketrans("×·−", "**-")
_TOKEN = re.compile(r"\s*([0-9]{1,9}|[a-z](?![a-z])|[-+*()])")


class _Wrong(Exception):
    """The expression can be read, but breaks a rule of the problem."""


class _Unreadable(Exception):
    """The text is no expression."""


class _Limits(NamedTuple):
    smallest: int
    largest: int


def check_expression(problem: Problem, answer: str) -> Verdict:
    """Decide whether an answer such as `(12-7)*5` or, in slot letters, `(a-b) *c` solves a countdown problem.

    `problem.details` holds `numbers`, `target` and, if other than 0 and 32, `smallest` and `largest`, the bounds of every value on
    the way. The expression counts as it is written: `1+2+3` adds from the left, and `*` binds before `+` and `-`.
    """
    details, shown = problem.details, answer.strip()
    try:
        numbers, target = [_whole(number) for number in details["numbers"]], _whole(details["target"])
        limits = _Limits(_whole(details.get("smallest", SMALLEST_VALUE)), _whole(details.get("largest", LARGEST_VALUE)))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        return Verdict("error", 0.0, f"the problem has no whole numbers and target: {error}"[:200], shown, problem.gold)
    try:
        parser = _Parser(_tokens(shown.translate(_SIGNS)), numbers, limits)
        value = parser.read_all()
        _check_use(parser.used, numbers)
    except _Unreadable as error:
        return Verdict("unparsed", 0.0, str(error), shown or None, problem.gold)
    except _Wrong as error:
        return Verdict("wrong", 0.0, str(error), shown, problem.gold)
    if value != target:
        return Verdict("wrong", 0.0, f"comes to {value}, not {target}", shown, problem.gold)
    return Verdict("correct", 1.0, f"comes to {target}", shown, problem.gold)


def _whole(value: Any) -> int:
    number = int(value)
    if number != value and str(number) != str(value).strip():
        raise ValueError(f"{value!r} is no whole number")
    return number


def _check_use(used: Sequence[int], numbers: Sequence[int]) -> None:
    extra, missing = Counter(used) - Counter(numbers), Counter(numbers) - Counter(used)
    if extra:
        raise _Wrong(f"uses {_listed(extra)} more often than given")
    if missing:
        raise _Wrong(f"leaves out {_listed(missing)}")


def _listed(numbers: Counter[int]) -> str:
    return ", ".join(str(number) for number in sorted(numbers.elements()))


def _tokens(text: str) -> list[str]:
    if not text:
        raise _Unreadable("empty answer")
    if len(text) > _MAX_CHARS:
        raise _Unreadable(f"{len(text)} characters are too long for an expression")
    tokens: list[str] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _Unreadable(f"cannot read {text[position : position + 10].strip()!r}")
        tokens.append(match[1])
        position = match.end()
    return tokens


class _Parser:
    """Recursive descent over: sum = product (± product)*, product = atom (* atom)*, atom = number | slot | ( sum )."""

    def __init__(self, tokens: list[str], numbers: Sequence[int], limits: _Limits) -> None:
        self._tokens = tokens
        self._position = 0
        self._numbers = numbers
        self._limits = limits
        self._out_of_range: int | None = None
        self.used: list[int] = []

    def read_all(self) -> int:
        value = self._sum()
        if self._next is not None:
            raise _Unreadable(f"cannot read on at {self._next!r}")
        if self._out_of_range is not None:
            raise _Wrong(f"the value {self._out_of_range} is outside {self._limits.smallest}..{self._limits.largest}")
        return value

    @property
    def _next(self) -> str | None:
        return self._tokens[self._position] if self._position < len(self._tokens) else None

    def _take(self) -> str:
        token = self._next
        if token is None:
            raise _Unreadable("ends too early")
        self._position += 1
        return token

    def _sum(self) -> int:
        value = self._product()
        while self._next in ("+", "-"):
            is_plus = self._take() == "+"
            right = self._product()
            value = self._in_range(value + right if is_plus else value - right)
        return value

    def _product(self) -> int:
        value = self._atom()
        while self._next == "*":
            self._take()
            value = self._in_range(value * self._atom())
        return value

    def _atom(self) -> int:
        token = self._take()
        if token == "(":
            value = self._sum()
            if self._take() != ")":
                raise _Unreadable("a bracket is not closed")
            return value
        if token.isdigit():
            self.used.append(int(token))
            return int(token)
        return self._slot(token)

    def _slot(self, token: str) -> int:
        slot = ord(token) - ord("a") if token.isalpha() else -1
        if not 0 <= slot < len(self._numbers):
            raise _Unreadable(f"{token!r} is no number or slot")
        self.used.append(self._numbers[slot])
        return self._numbers[slot]

    def _in_range(self, value: int) -> int:
        # Told only once the whole text has been read: text that is no expression is unparsed, whatever values it starts with.
        if self._out_of_range is None and not self._limits.smallest <= value <= self._limits.largest:
            self._out_of_range = value
        return value
