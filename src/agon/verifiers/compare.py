r"""Compare two mathematical answers with math-verify. Runs in a worker process only: sympy may hang or fill the memory.

Both sides go through one normalisation and through latex2sympy as a whole. A text that does not parse as a whole is compared as
text and never partly: no digit is pulled out of a formula. math-verify's own extraction is not used, since its plain-expression
path evaluates what it reads, and `forbid_evaluation` switches that off in sympy for good.

Rules on top of math-verify, each because it is measured to be wrong there:

* two exact values are compared exactly (1/2^80 is not 1/2^79);
* words are compared as words (`even` is not e·v·e·n), without case;
* a comma inside brackets always separates; outside it separates unless it stands between thousands groups;
* different units on both sides are different answers; a unit on one side only is ignored.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import math_verify.parser as math_verify_parser
import sympy
import sympy.parsing.sympy_parser as sympy_parser
import sympy.physics.units  # pyright: ignore[reportUnusedImport] - simplify would load it after forbid_evaluation, and it reads its names as text
from latex2sympy2_extended.latex2sympy2 import convert_to_pct, normalize_latex
from math_verify.grader import get_pct_val, sympy_expr_eq

from agon.numerals import MIN_ROUNDED_DIGITS, read_number
from agon.verifiers.spelling import (
    are_other_units,
    is_same_text,
    is_words,
    latex_spelling,
    number_in_base,
    split_unit,
    without_name,
)


class Comparison(NamedTuple):
    """What was found, and why."""

    outcome: Literal["correct", "wrong", "unparsed"]
    reason: str


_FLOAT_DIGITS = 6
_PRECISION = 15
_MAX_POWER = 5_000
# The first comparisons of a process build parser tables: they are made before it says that it is ready.
_WARM_UP = ((r"x^2+2x+1", r"(x+1)^2"), (r"-2 < x \le 7", r"(-2, 7]"))
_NUMBER_TOKEN = re.compile(r"[+-]?(?:[0-9]{1,4000}(?:\.[0-9]{0,4000})?|\.[0-9]{1,4000})")
# units are split off here: latex2sympy takes the variable m for metres.
_CONFIG = replace(math_verify_parser.LatexExtractionConfig().normalization_config, units=False)


def forbid_evaluation() -> None:
    """Switch off, for this process, the functions of sympy and math-verify that evaluate text as Python.

    latex2sympy has sympy read the number tokens of its grammar by that way; they are read here, decimals exactly.
    """
    for gold, answer in _WARM_UP:
        compare(gold, answer)

    def read_number_token(text: str, *args: Any, **kwargs: Any) -> Any:
        if not _NUMBER_TOKEN.fullmatch(text):
            raise ValueError("text is never evaluated")
        return sympy.Rational(text)

    sympy_parser.eval_expr = read_number_token
    sympy_parser.parse_expr = read_number_token
    math_verify_parser.parse_expr = read_number_token
    _parse.cache_clear()
    _readings.cache_clear()
    math_verify_parser.parse_latex_cached.cache_clear()


def compare(gold: str, answer: str) -> Comparison:
    """Decide whether an answer says the same as the gold answer."""
    if is_same_text(gold, answer):
        return Comparison("correct", "same text")
    if is_words(gold):
        return Comparison("wrong", "other words")
    bases = number_in_base(gold), number_in_base(answer)
    if bases[0] and bases[1]:
        shown = f"is {bases[1][0]} in base {bases[1][1]}"
        return Comparison("correct" if bases[0] == bases[1] else "wrong", shown)
    wanted, found = _readings(gold), _readings(answer)
    if not found:
        return Comparison("unparsed", "not a formula that can be read as a whole")
    if not wanted:
        return Comparison("wrong", "the gold answer is text, and the answer is another")
    if are_other_units(wanted[0].unit, found[0].unit):
        return Comparison("wrong", f"the unit is {found[0].unit}, not {wanted[0].unit}")
    if any(_is_same(one.value, other.value) for one in wanted for other in found) or _is_rounded(
        gold, answer, wanted, found
    ):
        return Comparison("correct", "equal")
    return Comparison("wrong", "not equal")


class _Reading(NamedTuple):
    value: Any
    unit: str


@lru_cache(maxsize=512)
def _readings(text: str) -> list[_Reading]:
    """The ways to read a text: as it stands, and without the unit after it (`5m` is a length or a product)."""
    latex = latex_spelling(text)
    core, unit = split_unit(latex)
    named = without_name(latex)
    values = [_parse(part) for part in dict.fromkeys((core, latex if unit else core))]
    if values == [None] and named:
        values = [_parse(split_unit(named)[0])]
    return [_Reading(value, unit) for value in values if value is not None]


def _is_same(wanted: Any, found: Any) -> bool:
    wanted, found = _symbol_first(wanted), _symbol_first(found)
    first, second = _exact(wanted), _exact(found)
    if first is not None and second is not None:
        return first == second or _is_same_but_for_percent(wanted, found)
    if isinstance(wanted, sympy.Ne) and isinstance(found, sympy.Ne):
        wanted, found = sympy.Eq(*wanted.args, evaluate=False), sympy.Eq(*found.args, evaluate=False)
    elif isinstance(wanted, sympy.Ne) or isinstance(found, sympy.Ne):
        return False
    return bool(sympy_expr_eq(wanted, found, _FLOAT_DIGITS, _PRECISION, allow_set_relation_comp=True))


def _symbol_first(value: Any) -> Any:
    if isinstance(value, sympy.Eq) and isinstance(value.rhs, sympy.Symbol) and not value.lhs.free_symbols:
        return sympy.Eq(value.rhs, value.lhs, evaluate=False)
    return value


def _is_rounded(gold: str, answer: str, wanted: list[_Reading], found: list[_Reading]) -> bool:
    """Whether one side is a long decimal that the other, an irrational number, rounds to."""
    for text, exact, rounded in ((answer, wanted[0].value, found[0].value), (gold, found[0].value, wanted[0].value)):
        number = read_number(text)
        if number and number.num_decimal_digits >= MIN_ROUNDED_DIGITS and getattr(exact, "is_irrational", False):
            gap = abs((exact - rounded) / exact).evalf(30)
            return bool(gap.is_number and gap <= sympy.Integer(10) ** (1 - number.num_decimal_digits))
    return False


@lru_cache(maxsize=512)
def _parse(text: str) -> Any:
    """The sympy form of a whole LaTeX text, None if it has none."""
    if not text or "__" in text:
        return None
    is_percent = text.endswith(r"\%")
    try:
        parsed: Any = math_verify_parser.parse_latex_cached(normalize_latex(text.removesuffix(r"\%"), _CONFIG))
        parsed = convert_to_pct(parsed) if is_percent else parsed
    except Exception:  # whatever the grammar of latex2sympy raises on model text: it cannot be read
        return None
    return None if parsed in (sympy.nan, sympy.zoo) else parsed


def _exact(value: Any) -> Any:
    """The value as an exact sympy.Rational (else None), where it is made of rational numbers by + - * / and small powers alone."""
    if isinstance(value, sympy.Float):
        return sympy.Rational(str(value))
    if not isinstance(value, sympy.Expr) or not all(_is_cheap(node) for node in sympy.preorder_traversal(value)):
        return None
    done: Any = value.doit()
    return done if isinstance(done, sympy.Rational) else None


def _is_cheap(node: Any) -> bool:
    if isinstance(node, sympy.factorial):
        return isinstance(node.args[0], sympy.Integer) and 0 <= int(node.args[0]) <= _MAX_POWER
    if isinstance(node, sympy.Pow):
        power = sympy.Integer(1)
        while isinstance(node, sympy.Pow):
            node, exponent = node.args
            power = power * exponent if isinstance(exponent, sympy.Integer) else sympy.oo
        return abs(power) <= _MAX_POWER
    return isinstance(node, sympy.Rational | sympy.Add | sympy.Mul | sympy.UnevaluatedExpr)


def _is_same_but_for_percent(wanted: Any, found: Any) -> bool:
    """Whether one side has a percent sign, the other has not, and the numbers before it are the same and not below 1."""
    first, second = get_pct_val(wanted), get_pct_val(found)
    if (first is None) == (second is None):
        return False
    bare = (_exact(wanted if first is None else first), _exact(found if second is None else second))
    return bare[0] == bare[1] and bare[0] is not None and abs(bare[0]) >= 1
