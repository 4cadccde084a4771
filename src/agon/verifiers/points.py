"""The points at which two formulas are compared. Runs in a worker process only."""

from __future__ import annotations

import random
from typing import Any

import sympy

_RANGES = ((0, 1), (0, 1), (0, 1), (1, 4), (1, 4), (1, 4), (-1, 0), (-1, 0), (-4, -1), (-4, -1))
_FAR_RANGES = (
    (5, 30),
    (-30, -5),
    (30, 300),
    (-300, -30),
    (1_000, 30_000),
    (-30_000, -1_000),
    (10**6, 10**9),
    (-(10**9), -(10**6)),
)
_PIECES = (sympy.Abs, sympy.Max, sympy.Min, sympy.floor, sympy.ceiling, sympy.sign, sympy.Piecewise, sympy.Mod)
_ARCS = (sympy.asin, sympy.acos, sympy.atan, sympy.acot, sympy.asec, sympy.acsc)
_GROWING = (sympy.factorial, sympy.gamma, sympy.binomial, sympy.Sum, sympy.Product, sympy.Integral)
_OF_COMPLEX = (sympy.Abs, sympy.re, sympy.im, sympy.arg, sympy.conjugate)
_COMPLEX_LETTERS = ("z", "w", "zeta")


def points(names: list[str], first: Any, second: Any) -> list[dict[str, Any]]:
    """Return values for the letters of two formulas: near zero, whole, and where a formula is made of pieces also far from zero.

    What is analytic and agrees on a range agrees everywhere; `|x-10|` is `10-x` up to 10. Letters whose size or parts are taken,
    and that are those of complex numbers, have complex values too.
    """
    chosen: list[dict[str, Any]] = []
    for index, (low, high) in enumerate(_RANGES):
        rng = random.Random(index)
        chosen.append({name: low + (high - low) * sympy.Rational(rng.randrange(1, 997), 997) for name in names})
    # For what is defined for whole numbers alone.
    chosen += [{name: sympy.Integer(start + 2 * i) for i, name in enumerate(names)} for start in (2, 3, 7)]
    if _has_powers_of_minus_one(first) or _has_powers_of_minus_one(second):
        chosen += [
            {name: sympy.Integer(start + 3 * i) for i, name in enumerate(names)} for start in (1, 4, 5, 6, 8, 10)
        ]
    if _can_go_far(first, second):
        chosen += _far_points(names)
    letters = _complex_letters(first) | _complex_letters(second)
    if letters:
        chosen += [
            {name: value * (1 + sympy.I) if name in letters else value for name, value in point.items()}
            for point in chosen[:4]
        ]
    return chosen


def have_branches(first: Any, second: Any) -> bool:
    """Tell whether a formula has roots, logarithms or inverse functions, of which another branch may be meant off the real line."""
    return any(map(_has_branch, (*sympy.preorder_traversal(first), *sympy.preorder_traversal(second))))


def _has_branch(node: Any) -> bool:
    if isinstance(node, (sympy.log, *_ARCS)) or "arc" in type(node).__name__:
        return True
    return isinstance(node, sympy.Pow) and not node.exp.is_integer and not node.base.is_positive


def _has_powers_of_minus_one(value: Any) -> bool:
    return any(
        isinstance(node, sympy.Pow) and node.exp.free_symbols and node.base.is_negative
        for node in sympy.preorder_traversal(value)
    )


def _can_go_far(first: Any, second: Any) -> bool:
    """Whether a formula is made of pieces, and none of its powers or products grows out of bounds."""
    nodes = [node for value in (first, second) for node in sympy.preorder_traversal(value)]
    has_pieces = any(
        isinstance(node, (*_PIECES, *_ARCS))
        or (isinstance(node, sympy.Pow) and isinstance(node.exp, sympy.Rational) and not node.exp.is_integer)
        for node in nodes
    )
    is_growing = any(
        isinstance(node, _GROWING) or (isinstance(node, sympy.Pow | sympy.exp) and node.args[-1].free_symbols)
        for node in nodes
    )
    return has_pieces and not is_growing


def _far_points(names: list[str]) -> list[dict[str, Any]]:
    far: list[dict[str, Any]] = []
    for index, (low, high) in enumerate(_FAR_RANGES):
        rng = random.Random(100 + index)
        signs = [1 if i == 0 else rng.choice((-1, 1)) for i in range(len(names))]
        far.append(
            {
                name: sign * (low + (high - low) * sympy.Rational(rng.randrange(1, 997), 997))
                for name, sign in zip(names, signs, strict=True)
            }
        )
    return far


def _complex_letters(value: Any) -> set[str]:
    names = {symbol.name for symbol in value.free_symbols}
    if {"x", "y"} & names:
        return set()  # z is the third coordinate
    taken = {symbol.name for node in value.atoms(*_OF_COMPLEX) for symbol in node.free_symbols}
    return taken & set(_COMPLEX_LETTERS)
