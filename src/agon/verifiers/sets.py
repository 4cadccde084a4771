"""Sets of numbers in their many forms: intervals, unions, lists, relations. Runs in a worker process only."""

from __future__ import annotations

import re
from typing import Any

import sympy

from agon.verifiers.reading import readings
from agon.verifiers.shape import Shape
from agon.verifiers.values import as_set, is_same_value

_SET_LIKE = re.compile(
    r"\\(?:cup|cap|setminus|pm|mp|emptyset|varnothing|mathbb|[lg](?:eq?|t|eqslant)|ne|neq)(?![A-Za-z])|[<>=]"
)


def is_same_whole(wanted: Shape, found: Shape) -> bool:
    """Tell whether two answers of different shape describe the same set of numbers, or state the same equation."""
    if wanted.name and wanted.name == found.name and wanted.kind == found.kind == "value":
        return False  # their values have been compared
    first, second = _text(wanted), _text(found)
    if not (_SET_LIKE.search(first) or _SET_LIKE.search(second)):
        return False
    if bool(wanted.name) != bool(found.name) and not ("=" in first and "=" in second):
        first, second = wanted.text, found.text
    one, other = _set(wanted, first), _set(found, second)
    if isinstance(one, sympy.Expr) or isinstance(other, sympy.Expr):
        return False  # a number is no relation: 4 is not 2x = 4
    return one is not None and other is not None and is_same_value(one, other)


def _text(shape: Shape) -> str:
    return f"{shape.name} = {shape.text}" if shape.name else shape.text


def _set(shape: Shape, text: str) -> Any:
    """A relation or a set; None for what is none."""
    if shape.kind == "value":
        values = readings(text)
        return values[0] if values else None
    parts = [readings(_text(part))[0] for part in shape.parts if part.kind == "value" and readings(_text(part))]
    if len(parts) < len(shape.parts):
        return None
    if shape.kind == "list":
        return _joined(parts, shape.glue)
    if len(parts) == 2 and shape.kind in ("tuple", "interval"):
        edges = shape.edges or "()"
        return sympy.Interval(*parts, left_open=edges.startswith("("), right_open=edges.endswith(")"))
    return None


def _joined(parts: list[Any], glue: str) -> Any:
    """The union of numbers, sets and relations; relations joined by `and` hold at once."""
    sets = [_one_set(part) for part in parts]
    letters = {symbol.name for part in parts for symbol in part.free_symbols}
    if any(part is None for part in sets) or len(letters) > 1:
        return None
    ranges = [one for one in sets if not isinstance(one, sympy.FiniteSet)]
    if ranges and any(isinstance(one, sympy.FiniteSet) and one.is_subset(sympy.Union(*ranges)) for one in sets):
        return None  # `q > 1, 77` names a value of the set as a second answer
    are_relations = all(isinstance(part, sympy.core.relational.Relational | sympy.And) for part in parts)
    union = sympy.Union(*sets)
    # `x \ge -2, x \le 7`: everything is at least -2 or at most 7, so both are meant
    hold_at_once = glue == "and" or (glue == "," and union == sympy.S.Reals)
    return sympy.Intersection(*sets) if are_relations and hold_at_once else union


def _one_set(value: Any) -> Any:
    found = as_set(value)
    if found is None and isinstance(value, sympy.Expr) and not value.free_symbols:
        return sympy.FiniteSet(value)
    return found
