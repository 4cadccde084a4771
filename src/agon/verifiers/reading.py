"""Read one LaTeX formula as a whole into sympy, without evaluating any text. Runs in a worker process only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import math_verify.parser as math_verify_parser
import sympy
import sympy.parsing.sympy_parser as sympy_parser
import sympy.physics.units  # pyright: ignore[reportUnusedImport] - simplify would load it after forbid_evaluation, and it reads its names as text
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, convert_to_pct, latex2sympy, normalize_latex

from agon.verifiers.notation import with_symbols
from agon.verifiers.units import split_unit

_NUMBER_TOKEN = re.compile(r"[+-]?(?:[0-9]{1,4000}(?:\.[0-9]{0,4000})?|\.[0-9]{1,4000})")
# units are split off here: latex2sympy takes the variable m for metres.
_CONFIG = replace(math_verify_parser.LatexExtractionConfig().normalization_config, units=False)
_CASE_MATTERS = ConversionConfig(lowercase_symbols=False)
# `\\cot t \\cdot y` is cot(t)·y: latex2sympy would take the whole product into the function.
_BARE_ARGUMENT = re.compile(
    r"(\\(?:sin|cos|tan|cot|sec|csc|ln|log)(?:\s?\^\s?(?:\{-?\d{1,3}\}|\d))?)\s+([A-Za-z])\s?(?=\\(?:cdot|times))"
)
# The grammar takes a bare `e` for no exponent, and no command without braces for a part of a fraction.
_BARE_E = re.compile(r"\^\s?e(?![A-Za-z])")
_BARE_FRACTION = re.compile(
    r"\\frac\s?(\\(?:pi|theta|alpha|beta)|\d|[A-Za-z])\s?(\\(?:pi|theta|alpha|beta)(?![A-Za-z])|\d|[A-Za-z])"
)


def forbid_evaluation() -> None:
    """Switch off, for this process, the functions of sympy and math-verify that evaluate text as Python.

    latex2sympy has sympy read the number tokens of its grammar by that way; they are read here, decimals exactly.
    """

    def read_number_token(text: str, *args: Any, **kwargs: Any) -> Any:
        if not _NUMBER_TOKEN.fullmatch(text):
            raise ValueError("text is never evaluated")
        return sympy.Rational(text)

    sympy_parser.eval_expr = read_number_token
    sympy_parser.parse_expr = read_number_token
    math_verify_parser.parse_expr = read_number_token
    _parse.cache_clear()
    readings.cache_clear()


@lru_cache(maxsize=1024)
def readings(latex: str) -> list[Any]:
    """Return the values that a formula can have: read without the unit after it, and as it stands (`5m` is a length or a product)."""
    core, unit = split_unit(latex)
    values = [_parse(part) for part in dict.fromkeys((core, latex if unit else core))]
    return [value for value in values if value is not None]


@lru_cache(maxsize=1024)
def _parse(text: str) -> Any:
    """The sympy form of a whole LaTeX text, None if it has none."""
    if not text or "__" in text:
        return None
    is_percent = text.endswith(r"\%")
    text, meanings = with_symbols(text.removesuffix(r"\%"), _parse)
    latex = normalize_latex(_BARE_FRACTION.sub(r"\\frac{\1}{\2}", text), _CONFIG)
    latex = _BARE_E.sub("^{e}", _BARE_ARGUMENT.sub(r"\1(\2)", latex))
    is_real = not math_verify_parser.should_treat_as_complex(latex)
    try:
        parsed: Any = latex2sympy(
            latex, is_real=is_real, convert_degrees=False, normalization_config=None, conversion_config=_CASE_MATTERS
        )
        parsed = convert_to_pct(parsed) if is_percent else parsed
    except Exception:  # whatever the grammar of latex2sympy raises on model text: it cannot be read
        return None
    return None if parsed in (sympy.nan, sympy.zoo) else _with_meanings(_with_imaginary_unit(parsed), meanings)


def _with_meanings(value: Any, meanings: Mapping[str, Any]) -> Any:
    """A value in which the letters that stand for other notation are that notation."""
    if not meanings or not hasattr(value, "free_symbols"):
        return value
    letters = {symbol: meanings[symbol.name] for symbol in value.free_symbols if symbol.name in meanings}
    return value.xreplace(letters)


def _with_imaginary_unit(value: Any) -> Any:
    """A value whose free letter i is the imaginary unit (the index of a sum is not free)."""
    units = (
        {symbol: sympy.I for symbol in value.free_symbols if symbol.name == "i"}
        if hasattr(value, "free_symbols")
        else {}
    )
    return value.xreplace(units) if units else value
