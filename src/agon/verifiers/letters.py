"""Letters whose choice is free. Runs in a worker process only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy

_INTEGER_LETTERS = ("k", "n", "m")


def letter_chosen(wanted: Any, found: Any) -> dict[str, str]:
    """Return the one letter that the answer chose otherwise and may: a constant of integration, or any integer beside pi."""
    if not isinstance(wanted, sympy.Expr) or not isinstance(found, sympy.Expr):
        return {}
    only_wanted = sorted(_names(wanted) - _names(found))
    only_found = sorted(_names(found) - _names(wanted))
    if len(only_wanted) != 1 or len(only_found) != 1:
        return {}
    is_integer = only_wanted[0] in _INTEGER_LETTERS and only_found[0] in _INTEGER_LETTERS
    if is_integer and wanted.has(sympy.pi) and found.has(sympy.pi):
        return {only_found[0]: only_wanted[0]}
    is_constant = only_wanted[0] == "C" and any(str(term) == only_found[0] for term in sympy.Add.make_args(found))
    has_constant = any(str(term) == "C" for term in sympy.Add.make_args(wanted))
    return {only_found[0]: "C"} if is_constant and has_constant else {}


def _names(value: Any) -> set[str]:
    return {symbol.name for symbol in value.free_symbols}


def renamed(value: Any, letters: Mapping[str, str]) -> Any:
    """Return a value with its letters exchanged."""
    if not letters or not isinstance(value, sympy.Basic):
        return value
    symbols: set[Any] = value.free_symbols
    return value.xreplace({one: sympy.Symbol(letters[one.name]) for one in symbols if one.name in letters})
