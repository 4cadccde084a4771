r"""The names that answers give to their values, and whether two of them can be the same thing. Pure text."""

from __future__ import annotations

import re

FUNCTION = re.compile(r"\\?([A-Za-z]+'{0,9})\s?\(\s?([A-Za-z])\s?\)")
_VARIABLE = re.compile(
    r"\\?(?:[A-Za-z]|(?<=\\)[A-Za-z]+)'{0,9}(?:_\{?\w{1,3}\}?)?|\\?[A-Za-z]'{0,9}\s?\(\s?\w{1,3}\s?\)"
)
_POINTS = re.compile(r"(\\(?:angle|overline|triangle|vec|widehat)\s?\{?)?\s?([A-Z]{2,5})\}?")
_OPPOSITES = tuple(
    frozenset(words.split())
    for words in (
        "maximum minimum", "max min", "maximal minimal", "largest smallest", "greatest least", "greatest smallest", "highest lowest",
        "first last", "upper lower", "area perimeter volume circumference radius diameter", "length width height", "mean median mode",
        "sum product difference quotient", "sine cosine tangent", "even odd", "positive negative", "domain range", "numerator denominator",
    )
)  # fmt: skip


def do_names_agree(wanted: str, found: str) -> bool:
    """Tell whether two names can be the same thing: other variables or segments cannot; a description and a variable can.

    Two descriptions cannot if one says the maximum and the other the minimum, or the like.
    """
    one, other = ("".join(name.split()) for name in (wanted, found))
    if not one or not other or one == other:
        return True
    first, second = FUNCTION.fullmatch(wanted), FUNCTION.fullmatch(found)
    if first and second:
        return first[1] == second[1]
    points = _POINTS.fullmatch(wanted.strip()), _POINTS.fullmatch(found.strip())
    if points[0] and points[1]:
        return _point_names(points[0]) == _point_names(points[1])
    if one.startswith("(") and other.startswith("(") and sorted(one) == sorted(other):
        return False
    if _VARIABLE.fullmatch(wanted) and _VARIABLE.fullmatch(found):
        return False
    return not _are_opposites(_words(wanted), _words(found))


def can_be_one_equation(wanted: str, found: str) -> bool:
    """Tell whether two answers with these names can be one equation solved for this or that: other names are other things."""
    return do_names_agree(wanted, found) or all(_VARIABLE.fullmatch(name.strip()) for name in (wanted, found))


def _point_names(points: re.Match[str]) -> str:
    """The points of a segment or a figure in one order; of an angle only the ends may change places."""
    names = points[2]
    if "angle" in (points[1] or "") and "tri" not in points[1]:
        return min(names, names[::-1])
    return names if "vec" in (points[1] or "") else "".join(sorted(names))


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z]{3,}", name.lower())) - {"text", "mathrm"}


def _are_opposites(one: set[str], other: set[str]) -> bool:
    return any(one & kind and other & kind and not one & other & kind for kind in _OPPOSITES)
