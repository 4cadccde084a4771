r"""Compare two mathematical answers. Runs in a worker process only: sympy may hang or fill the memory.

Both sides go through one normalisation (`spelling`) and are taken apart by their outer shape (`shape`). Each part goes through
latex2sympy as a whole and is compared by value (`values`). A part that does not parse as a whole is compared as text and never
partly: no digit is pulled out of a formula. math-verify's own extraction is not used, since its plain-expression path evaluates
what it reads, and `reading.forbid_evaluation` switches that off in sympy for good. The rules are written down in docs/verdicts.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import sympy

from agon.numerals import MIN_ROUNDED_DIGITS, only_number, read_number, same_number
from agon.verifiers.letters import letter_chosen, renamed
from agon.verifiers.names import FUNCTION, can_be_one_equation, do_names_agree
from agon.verifiers.notation import says_that_matrices_commute
from agon.verifiers.reading import readings
from agon.verifiers.sets import is_same_whole
from agon.verifiers.shape import (
    Shape,
    are_joined_otherwise,
    equation_sides,
    has_remark,
    is_equation,
    read_shape,
    stated_value,
    without_remarks,
)
from agon.verifiers.spelling import is_same_text, is_words, latex_spelling, number_in_base, plain_spelling
from agon.verifiers.units import are_other_units, split_unit
from agon.verifiers.values import is_rounded, is_same_value, is_unfinished
from agon.verifiers.vectors import in_unit_vectors, is_bare, rows, with_unit_vectors


class Comparison(NamedTuple):
    """What was found, and why."""

    outcome: Literal["correct", "wrong", "unparsed"]
    reason: str


_WARM_UP = ((r"x^2+2x+1", r"(x+1)^2"), (r"-2 < x \le 7", r"(-2, 7]"), (r"\frac{\sqrt{3}}{2}", r"\sin 60^\circ"))
_DEGREE = re.compile(r"\^\s?\{?\s?\\circ\s?\}?")
_TRIGONOMETRY = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![A-Za-z])")
_PROSE = re.compile(r"[\w\s.,:!'$€£%°²³-]+(?<!_)")
# A single letter may be a variable, unless it stands apart and abbreviates a unit.
_HEDGE = re.compile(r"\b[b-zB-HJ-Z]\b|_")
_LETTER_UNIT = re.compile(r"(?<=\d) [mghslLNJWV](?![\w^²³-])")


def warm_up() -> None:
    """Make the first comparisons of a process, which build parser tables."""
    for gold, answer in _WARM_UP:
        compare(gold, answer)


def compare(gold: str, answer: str) -> Comparison:
    """Decide whether an answer says the same as the gold answer."""
    if is_same_text(gold, answer):
        return Comparison("correct", "same text")
    if is_words(gold):
        return Comparison("wrong", "other words")
    if says_that_matrices_commute(gold):
        return Comparison("wrong", "another order")
    bases = number_in_base(gold), number_in_base(answer)
    if bases[1]:
        shown = f"is {bases[1][0]} in base {bases[1][1]}"
        return Comparison("correct" if bases[0] == bases[1] else "wrong", shown)
    if bases[0]:
        # the question asked for that base: the sign may be left off
        is_same = "".join(plain_spelling(answer).split()) == bases[0][0]
        return Comparison("correct" if is_same else "wrong", f"the gold answer is {bases[0][0]} in base {bases[0][1]}")
    try:
        return _compare_shapes(gold, answer)
    except (MemoryError, RecursionError):
        raise
    except Exception as error:
        if _is_raised_here(error):
            raise
        return Comparison("wrong", f"cannot be shown to be equal ({type(error).__name__})")


def _is_raised_here(error: Exception) -> bool:
    """Whether our own code raised, and not sympy on what it was given: only that is the checker's fault."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is None or str(trace.tb_frame.f_globals.get("__name__", "")).startswith("agon.")


def can_be_read(text: str) -> Comparison:
    """Tell whether a text has a value as a whole, or in each of its parts."""
    latex = latex_spelling(text)
    is_readable = number_in_base(text) is not None or _is_readable(read_shape(latex)) or bool(readings(latex))
    if is_readable:
        return Comparison("correct", "can be read")
    return Comparison("unparsed", "is no formula that can be read as a whole")


def _compare_shapes(gold: str, answer: str) -> Comparison:
    wanted_latex, found_latex = latex_spelling(gold), latex_spelling(answer)
    if not has_remark(wanted_latex):
        found_latex = without_remarks(found_latex)
    wanted, found = read_shape(wanted_latex), read_shape(found_latex)
    for one, other in _units(wanted, found):
        if are_other_units(one, other):
            return Comparison("wrong", f"the unit is {other}, not {one}")
    if are_joined_otherwise(wanted, found):
        return Comparison("wrong", "and is not or")
    if _is_same(wanted, found) or (can_be_one_equation(wanted.name, found.name) and is_same_whole(wanted, found)):
        return Comparison("correct", "equal")
    if found.kind == "value" and _is_one_number_in_words(gold, answer):
        return Comparison("correct", "the number in the words")
    if not _is_readable(found):
        return Comparison("unparsed", "not a formula that can be read as a whole")
    if not _is_readable(wanted):
        return Comparison("wrong", "the gold answer is text, and the answer is another")
    return Comparison("wrong", "not equal")


def _is_same(wanted: Shape, found: Shape) -> bool:
    if not do_names_agree(wanted.name, found.name):
        return False
    match wanted.kind, found.kind:
        case "value", "value":
            return _is_same_leaf(wanted, found)
        case "list", "list":
            return _is_same_list(wanted.parts, found.parts, is_set=_has_braces(wanted) or _has_braces(found))
        case "tuple", "tuple" if r"\mp" in wanted.text + found.text:
            return _is_same_list([wanted], [found])
        case ("tuple", "tuple") | ("matrix", "matrix"):
            return _are_same_in_order(wanted.parts, found.parts)
        case ("tuple", "list") | ("list", "tuple") if is_bare(wanted, found) and _are_same_in_order(
            wanted.parts, found.parts
        ):
            return True
        case "interval", "interval":
            return wanted.edges == found.edges and _are_same_in_order(wanted.parts, found.parts)
        case ("matrix", "tuple") | ("tuple", "matrix"):
            return _are_same_in_order(_vector(wanted), _vector(found))
        case ("value" | "tuple", "list") | ("list", "value" | "tuple"):
            return _is_same_list(_listed(wanted), _listed(found), is_set=_has_braces(wanted) or _has_braces(found))
        case ("matrix", "interval" | "list") | ("interval" | "list", "matrix"):
            return _are_same_in_order(rows(wanted), rows(found))
        case ("tuple" | "matrix", "value") if in_unit_vectors(found.text):
            return _is_same_formula(with_unit_vectors(_vector(wanted)), in_unit_vectors(found.text), {})
        case ("value", "tuple" | "matrix") if in_unit_vectors(wanted.text):
            return _is_same_formula(in_unit_vectors(wanted.text), with_unit_vectors(_vector(found)), {})
        case ("matrix", "value") | ("value", "matrix"):
            return _is_same_formula(wanted.text, found.text, {})
        case _:
            return False


def _listed(shape: Shape) -> Sequence[Shape]:
    return shape.parts if shape.kind == "list" else [shape]


def _vector(shape: Shape) -> Sequence[Shape]:
    """The entries of a tuple, or of a matrix that is one row or one column."""
    if shape.kind == "tuple":
        return shape.parts
    rows = [row.parts for row in shape.parts]
    return rows[0] if len(rows) == 1 else [row[0] for row in rows if len(row) == 1]


def _are_same_in_order(wanted: Sequence[Shape], found: Sequence[Shape]) -> bool:
    return len(wanted) == len(found) and all(_is_same(one, other) for one, other in zip(wanted, found, strict=True))


def _is_same_list(wanted: Sequence[Shape], found: Sequence[Shape], *, is_set: bool = False) -> bool:
    """Whether two lists have the same values as often, in any order; in the gold's own where it alone has a name for each."""
    wanted, found = _spread(wanted), _spread(found)
    names = {part.name for part in wanted}
    if len(wanted) > 1 and "" not in names and len(names) == len(wanted) and not any(part.name for part in found):
        return _are_same_in_order(wanted, found)
    if not is_set and all(part.kind == "value" for part in (*wanted, *found)):
        # a point said twice is no second one, but a root is; equality is no equivalence (25% is 25 and 0.25): both sides are counted
        is_as_often = len(wanted) == len(found) and all(_count(one, wanted) == _count(one, found) for one in wanted)
        return is_as_often and all(_count(other, wanted) for other in found)
    return all(_count(one, found) for one in wanted) and all(_count(other, wanted) for other in found)


def _has_braces(shape: Shape) -> bool:
    return shape.text.startswith((r"\{", "{"))


def _count(value: Shape, parts: Sequence[Shape]) -> int:
    return sum(_is_same(value, part) for part in parts)


def _spread(parts: Sequence[Shape]) -> list[Shape]:
    r"""The parts of a list, with `\pm` written out as two values (in each place of a tuple on its own)."""
    spread = [variant for part in parts for variant in _signs(part)]
    return spread if len(spread) <= 4 * len(parts) else list(parts)


def _signs(part: Shape) -> list[Shape]:
    if part.kind not in ("value", "tuple"):
        return [part]
    if r"\mp" in part.text:
        # the upper signs belong together, and so do the lower ones
        return [_signed(part, *pair) for pair in ("+-", "-+")]
    if r"\pm" not in part.text:
        return [part]
    if part.kind == "value":
        return [_signed(part, sign, "") for sign in "+-"] if part.text.count(r"\pm") == 1 else [part]
    variants: list[tuple[Shape, ...]] = [()]
    for inner in part.parts:
        variants = [(*before, after) for before in variants for after in _signs(inner)][:64]
    return [part._replace(parts=variant) for variant in variants]


def _signed(part: Shape, plus: str, minus: str) -> Shape:
    text = part.text.replace(r"\pm", plus).replace(r"\mp", minus)
    return part._replace(text=text, parts=tuple(_signed(inner, plus, minus) for inner in part.parts))


def _is_same_leaf(wanted: Shape, found: Shape) -> bool:
    gold, answer = wanted.text, found.text
    if is_same_text(gold, answer):
        return True
    if is_words(gold):
        return False
    first, second = read_number(gold), read_number(answer)
    if first and second:
        return same_number(first, second)
    if is_equation(answer) and not is_equation(gold):
        stated = None if wanted.name else stated_value(answer)
        if stated is None:
            return False
        answer = stated
    elif is_equation(gold) and not is_equation(answer):
        # `7 = 11a+c` asks for the equation, `AB = 7` for the value
        stated = stated_value(gold) if re.match(r"[^\d=]*[A-Za-z]", gold) else None
        if stated is None:
            return False
        gold = stated
    one, other = FUNCTION.fullmatch(wanted.name), FUNCTION.fullmatch(found.name)
    letters = {other[2]: one[2]} if one and other and one[2] != other[2] else {}
    return _is_same_formula(_in_radians(gold, answer), _in_radians(answer, gold), letters)


def _is_same_formula(gold: str, answer: str, letters: Mapping[str, str]) -> bool:
    wanted, found = readings(gold), readings(answer)
    for one in wanted:
        for other in found:
            value = renamed(other, letters)
            if is_unfinished(one, value):
                continue
            if is_same_value(one, value):
                return True
            same_letter = letter_chosen(one, value)
            if same_letter and is_same_value(one, renamed(value, same_letter)):
                return True
    return bool(wanted and found) and _is_rounded(gold, answer, wanted[0], found[0])


def _in_radians(text: str, other: str) -> str:
    """A text whose degrees are written in radians, where they are an angle's or the other side is in radians."""
    if not _DEGREE.search(text):
        return text
    is_number = not _TRIGONOMETRY.search(text) and (_DEGREE.search(other) or r"\pi" not in other)
    return _DEGREE.sub("" if is_number else r"\\cdot\\frac{\\pi}{180}", text)


def _is_rounded(gold: str, answer: str, wanted: Any, found: Any) -> bool:
    """Whether one side is a long decimal that the other, which no decimal writes out in full, rounds to."""
    for text, exact, rounded in ((answer, wanted, found), (gold, found, wanted)):
        number = read_number(text)
        if number and number.num_decimal_digits >= MIN_ROUNDED_DIGITS and isinstance(rounded, sympy.Rational):
            return is_rounded(exact, rounded, number.num_decimal_digits)
    return False


def _is_one_number_in_words(gold: str, answer: str) -> bool:
    """Whether the gold answer is a number and the answer the same one with words around it."""
    if not _PROSE.fullmatch(answer) or _HEDGE.search(_LETTER_UNIT.sub("", answer)):
        return False
    wanted, found = read_number(split_unit(latex_spelling(gold))[0]), only_number(answer)
    return bool(wanted and found and same_number(wanted, found))


def _units(wanted: Shape, found: Shape) -> list[tuple[str, str]]:
    if wanted.parts and len(wanted.parts) == len(found.parts):
        return [pair for one, other in zip(wanted.parts, found.parts, strict=True) for pair in _units(one, other)]
    return [(split_unit(wanted.text)[1], split_unit(found.text)[1])] if not wanted.parts and not found.parts else []


def _is_readable(shape: Shape) -> bool:
    if shape.parts:
        return all(_is_readable(part) for part in shape.parts)
    if sides := equation_sides(shape.text):
        return all(bool(readings(side)) for side in sides) or bool(readings(shape.text))
    return is_words(shape.text) or read_number(shape.text) is not None or bool(readings(shape.text))
