r"""Notation that the grammar would lose, as symbols and functions of its own. Runs in a worker process only.

latex2sympy drops primes and `^T`, takes `f^{-1}(x)` for a reciprocal, the greatest common divisor of two letters for 1, and lets matrices
commute. Here such notation becomes a symbol or a function that is equal to nothing but itself. What has a value of its own and is only
written in a way that the grammar does not know (`0.\overline{3}`, `\log_e`) is written in another.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import sympy

from agon.verifiers.brackets import usual_rows

_PRIMES = re.compile(
    r"(\\[A-Za-z]+|[A-Za-z])\s?(?:_(?:\{([A-Za-z0-9]{1,12})\}|([A-Za-z0-9])))?\s?('{1,9}|\^\s?\{?\s?(?:\\prime\s?){1,9}\}?)"
)
_POWER_OF_FUNCTION = re.compile(
    r"([fghFGH])\s?\^\s?(?:\{\s?([-()A-Za-z0-9]{1,12})\s?\}|(\w))\s?(?=\()|f\s?\^\s?\{\s?-1\s?\}"
)
_TURNED = re.compile(
    r"\^\s?(?:\{\s?)?(?:\\top|\\intercal|\\(?:mathrm|mathsf|text)\s?\{?\s?T\s?\}?|T)(?![A-Za-z])(?:\s?\})?"
)
# One factor of a product of matrices: a letter or a bracket, with the exponents behind it.
_FACTOR = r"(?:[A-Za-z](?:_(?:\{\w{1,6}\}|\w))?|\([^()]{1,80}\)|\[[^\[\]]{1,80}\])(?:\s?\^\s?(?:\{\s?(?:-\s?1|T|\w)\s?\}|T|\d))*"
_PRODUCT = re.compile(rf"(?<![A-Za-z\\_^{{]){_FACTOR}(?:\s?(?:\*|\\cdot(?![A-Za-z]))?\s?{_FACTOR})*")
_INVERTED = re.compile(
    r"(?:(?<!\\)[A-Z](?:_(?:\{\w{1,6}\}|\w))?|\(\s?[A-Z](?:\s?[A-Z]){1,5}\s?\))\s?\^\s?\{\s?-\s?1\s?\}"
)
_VECTOR = r"(?:\\(?:vec|overrightarrow|mathbf|boldsymbol|bm|hat)\s?(?:\{\s?[^{}]{1,12}\}|[A-Za-z])|\\nabla(?![A-Za-z]))"
_CROSS = re.compile(rf"({_VECTOR})\s?\\times\s?({_VECTOR})")
_BARE_VECTOR = re.compile(r"\\(vec|hat|bar)\s?([A-Za-z])(?![A-Za-z])")
_CONVOLUTION = re.compile(r"(?<![A-Za-z\\])([fghFGH])\s?(?:\*|\\(?:ast|star)(?![A-Za-z]))\s?([fghFGH])(?![A-Za-z])")
_DIVISOR = re.compile(
    r"\\?(?:operatorname\s?\{\s?)?(?<![A-Za-z])(gcd|lcm)(?![A-Za-z])\s?\}?\s?\(([^()]{1,80}(?:\([^()]{1,40}\)[^()]{0,40}){0,4})\)"
)
_EXPECTED = re.compile(
    r"(?<![A-Za-z\\])(?:\\(?:mathbb|operatorname|mathrm|text)\s?\{?\s?)?(E|Var|Cov|P)\s?\}?\s?\[([^\[\]]{1,80})\]"
)
_DERIVATIVE = re.compile(
    r"\\frac\s?\{\s?(d|\\partial)\s?(?:\^\s?\{?(\d)\}?)?\s?([A-Za-z])\s?\}\s?\{\s?\1\s?([A-Za-z])\s?(?:\^\s?\{?(\d)\}?)?\s?\}"
)
_GAMMA_TIMES = re.compile(r"\\gamma\s?(?=\()")
# A time of day, and not the ratio of two numbers.
_TIME = re.compile(r"(?:0?(\d)|(1\d|2[0-4]))\s?:\s?([0-5]\d)")
_REPEATING = re.compile(
    r"(?<!\d)(\d{0,20})\.(\d{0,20})\\(?:overline|bar|dot)\s?(?:\{(\d{1,20})\}|(\d))(?:\s?\\[lc]?dots)?(?!\d)"
)
_NATURAL = re.compile(r"\\log\s?_\s?(?:\{\s?e\s?\}|e)(?![A-Za-z])")
_LANDAU = re.compile(r"\\mathcal\s?(?:\{\s?O\s?\}|O(?![A-Za-z]))")
_COMMUTING = re.compile(r"\s?([A-Z](?:\s?[A-Z]){1,5})\s?=\s?([A-Z](?:\s?[A-Z]){1,5})\s?")

Read = Callable[[str], Any]


def says_that_matrices_commute(text: str) -> bool:
    """Tell whether an equation has the same letters on both sides in another order (`AB = BA`): as numbers it would say nothing."""
    sides = _COMMUTING.fullmatch(text.strip(" $"))
    if sides is None:
        return False
    first, second = ("".join(side.split()) for side in sides.groups())
    return first != second and sorted(first) == sorted(second)


def with_symbols(latex: str, read: Read) -> tuple[str, dict[str, Any]]:
    r"""Return a formula that keeps its meaning in the grammar, and what its letters of the form `\Xi_{907}` stand for.

    `read` reads a part of the formula.
    """
    latex = _NATURAL.sub(r"\\ln ", _REPEATING.sub(_fraction, _LANDAU.sub("O", usual_rows(latex))))
    latex = _PRIMES.sub(_with_primes, _POWER_OF_FUNCTION.sub(_with_power, latex))
    meanings: dict[str, Any] = {}

    def symbol(meaning: Any) -> str:
        name = f"Xi_{{{900 + len(meanings)}}}"
        meanings[name] = sympy.Symbol(meaning) if isinstance(meaning, str) else meaning
        return f"\\{name} "

    if time := _TIME.fullmatch(latex):
        return symbol(f"{time[1] or time[2]}:{time[3]}"), meanings
    latex = _CROSS.sub(lambda pair: symbol(_squeezed(pair.group())), latex)
    latex = _BARE_VECTOR.sub(r"\\\1{\2}", latex)
    latex = _CONVOLUTION.sub(lambda pair: symbol("*".join(sorted(pair.groups()))), latex)
    latex = _DERIVATIVE.sub(lambda found: symbol(_squeezed(found.group())), latex)
    latex = _GAMMA_TIMES.sub(r"\\gamma \\cdot ", latex)
    latex = _DIVISOR.sub(lambda found: _divisor(found, read, symbol), latex)
    latex = _EXPECTED.sub(lambda found: symbol(_applied(found[1], [read(found[2])], found.group())), latex)
    latex = _TURNED.sub("^{T}", latex)
    if _INVERTED.search(latex) or ("^{T}" in latex and r"\begin" not in latex):
        latex = _PRODUCT.sub(lambda product: _matrices(product.group(), symbol), latex)
        if "^{T}" in latex:
            latex = latex.replace("^{T}", f"^{{{symbol('T')}}}")
    return latex, meanings


def _with_primes(name: re.Match[str]) -> str:
    num_primes = name[4].count("'") + name[4].count("prime")
    return f"{name[1]}_{{{name[2] or name[3] or ''}{'prime' * num_primes}}}"


def _with_power(name: re.Match[str]) -> str:
    """A function with the exponent in its name: `f^2(x)` is f(x)^2 for some and f(f(x)) for others."""
    exponent = re.sub(r"[^A-Za-z0-9]", "", (name[2] or name[3] or "1").replace("-", "minus").replace("(", "order"))
    return f"{name[1] or 'f'}_{{{'inverse' if exponent in ('minus1', '1') else 'power' + exponent}}}"


def _fraction(number: re.Match[str]) -> str:
    whole, fixed, period = number[1] or "0", number[2], number[3] or number[4]
    value = int(whole + fixed + period) - int(whole + fixed)
    return rf"\frac{{{value}}}{{{'9' * len(period)}{'0' * len(fixed)}}}"


def _divisor(found: re.Match[str], read: Read, symbol: Callable[[Any], str]) -> str:
    values = [read(part) for part in found[2].split(",")]
    if any(not isinstance(value, sympy.Expr) for value in values):
        return symbol(_squeezed(found.group()))
    if not any(value.free_symbols for value in values):
        return found.group()
    divisor = _applied("gcd", values, "")
    is_multiple = found[1] == "lcm" and len(values) == 2
    return symbol(values[0] * values[1] / divisor if is_multiple else _applied(found[1], values, ""))


def _applied(name: str, values: list[Any], text: str) -> Any:
    """A function of values whose order does not count; of what cannot be read, a symbol named by its text."""
    if any(not isinstance(value, sympy.Expr) for value in values):
        return _squeezed(text)
    return sympy.Function(name)(*sorted((sympy.expand(value) for value in values), key=str))


def _matrices(product: str, symbol: Callable[[Any], str]) -> str:
    """A product that has a letter with `^T` or a capital letter is one symbol, in its own order."""
    is_one_letter = re.fullmatch(r"[A-Za-z](?:_\w)?", product)
    if is_one_letter or not ("^{T}" in product or re.search(r"[A-Z]", product)):
        return product
    return symbol(_squeezed(product))


def _squeezed(text: str) -> str:
    return re.sub(r"[\s*{}]|\\cdot(?![A-Za-z])", "", text)
