"""Vectors and matrices in the other ways to write them: by unit vectors, and as lists of rows."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agon.verifiers.shape import Shape

_UNIT = re.compile(
    r"\\(?:mathbf|hat|vec|boldsymbol|bm|widehat|overrightarrow)\s?(?:\{\s?\\?([ijk])(?:math)?\s?\}|\\?([ijk])(?:math)?(?![A-Za-z]))"
)
_SUM = re.compile(
    r"[^A-Za-z]*(?:\\(?:frac|sqrt|pi|cdot)(?![A-Za-z])[^A-Za-z]*)*(?:[ijk][^A-Za-z]*(?:\\(?:frac|sqrt|pi|cdot)(?![A-Za-z])[^A-Za-z]*)*){1,3}"
)


def in_unit_vectors(latex: str) -> str:
    """Return a sum of multiples of i, j and k with plain letters; an empty text for anything else (a number with i alone is complex)."""
    plain = _UNIT.sub(lambda unit: unit[1] or unit[2], latex)
    letters = re.findall(r"(?<![\\A-Za-z])[ijk](?![A-Za-z])", plain)
    is_sum = _SUM.fullmatch(plain) is not None and len(letters) == len(set(letters)) and bool({"j", "k"} & set(letters))
    return plain if is_sum else ""


def with_unit_vectors(entries: Sequence[Shape]) -> str:
    """Return the vector of two or three entries as a sum of multiples of i, j and k; an empty text for any other."""
    if not 2 <= len(entries) <= 3 or any(entry.kind != "value" for entry in entries):
        return ""
    return "+".join(f"({entry.text}) {letter}" for entry, letter in zip(entries, "ijk", strict=False))


def is_bare(*shapes: Shape) -> bool:
    """Tell whether no list among some shapes is in the brackets of a set."""
    return not any(shape.kind == "list" and shape.edges for shape in shapes)


def rows(shape: Shape) -> Sequence[Shape]:
    """Return the rows of a matrix, also of one that is written as a list of lists (`[[1,2],[3,4]]`); none of anything else."""
    if shape.kind == "matrix":
        return shape.parts
    if not re.match(r"\[\s?\[", shape.text) or not all(
        part.parts and part.text.startswith("[") for part in shape.parts
    ):
        return ()
    return [Shape("tuple", "", part.parts) for part in shape.parts]
