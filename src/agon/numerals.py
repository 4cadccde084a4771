r"""Plain numbers as people and models write them, read exactly.

Integers, decimals, fractions, mixed numbers and powers of ten; with thousands separators, a currency sign, a percent sign, degrees,
LaTeX or markdown around them, unicode minus, full-width digits and vulgar fractions. A thousands separator is one only between
groups of three digits (`1,234`, `1{,}234`, `1\,234`), so that `0,1`, `1,23` and `3, 11, 33` are never glued together.

What is not one of these is None: nothing is guessed from part of a formula.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

MAX_CHARS = 2_000
MAX_EXPONENT = 999

# A decimal this long stands for the endless fraction that rounds to it (0.0833333333 for 1/12); a shorter one does not.
MIN_ROUNDED_DIGITS = 8
_DOUBLE_DIGITS = 15


class Number(NamedTuple):
    """An exact value, whether it was written with a percent sign, and its significant digits when it was written as a decimal."""

    value: Fraction
    is_percent: bool = False
    num_decimal_digits: int = 0


_FULL_WIDTH = {0xFF01 + i: 0x21 + i for i in range(94)}
_SIGNS = {ord(sign): "-" for sign in "−‒–—﹣－"} | {ord(sign): "*" for sign in "×·∙⋅"}
_SPACES = dict.fromkeys((0x2009, 0x202F, 0x00A0, 0x2007), r"\,")
_VULGAR = dict(
    zip(
        "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞⅑⅒⅐",
        ["12", "13", "23", "14", "34", "15", "25", "35", "45", "16", "56", "18", "38", "58", "78", "19", "1,10", "17"],
        strict=True,
    )
)
_TRANSLATE: dict[int, str | int | None] = {
    **dict.fromkeys((0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF)),
    **_FULL_WIDTH,
    **_SPACES,
    **_SIGNS,
    0x2044: "/",
    **{ord(sign): rf"\frac{{{text[0]}}}{{{text[1:].lstrip(',')}}}" for sign, text in _VULGAR.items()},
}

_WRAPPER = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mathsf|mbox|bf|rm|emph|boldsymbol|bm|underline)\s{0,4}\{([^{}]{0,200})\}"
)
_DROPPED = re.compile(
    r"\\(?:left|right|displaystyle|!)(?![A-Za-z])|\\[()\[\]]|\*\*|__|\\?\$|[€£¥¢]|\\(?:euro|pounds)(?![A-Za-z])"
)
_DEGREES = re.compile(r"\^\s{0,2}\{?\s{0,2}\\circ\s{0,2}\}?|°|\\degree(?![A-Za-z])")
_GROUP_GAP = re.compile(r"(?<=\d)(?:\{,\}|,\\!\s?|\\[, ])(?=\d{3}(?!\d))")
_SPACING = re.compile(r"\\[,;:! ]|\\q?quad(?![A-Za-z])|~|\s+")
_PERCENT = re.compile(r"\\%|\b(?:percent|per cent|pct)\b\.?")

_DIGITS = r"(?:(?:[1-9]\d{0,2}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+)"
_LATEX_FRACTION = (
    rf"(?P<whole>\d+)? ?\\[dtc]?frac ?(?:\{{ ?(?P<top>-?{_DIGITS}) ?\}}|(?P<top1>\d)) ?"
    rf"(?:\{{ ?(?P<bottom>-?{_DIGITS}) ?\}}|(?P<bottom1>\d))"
)
_TIMES_TEN = r"(?: ?(?:\\times(?![A-Za-z])|\\cdot(?![A-Za-z])|\*|x) ?)"
_POWER = r"10 ?\^ ?(?:\{ ?(?P<power>[+-]?\d{1,4}) ?\}|(?P<power1>[+-]?\d{1,4}))"
_NUMBER = (
    r"(?P<sign>[+-] ?)?(?:"
    rf"{_LATEX_FRACTION}"
    rf"|(?:(?P<mixed>\d+) )?(?P<over>{_DIGITS}) ?/ ?(?P<under>-?{_DIGITS})"
    rf"|(?:(?P<plain>{_DIGITS}){_TIMES_TEN})?{_POWER}"
    rf"|(?P<decimal>{_DIGITS})(?:[eE](?P<exponent>[+-]?\d{{1,4}}))?"
    r")(?P<scale> ?(?:hundred|thousand|million|billion|trillion)(?![A-Za-z]))?(?P<percent> ?%)?"
)
_WHOLE = re.compile(_NUMBER + r" ?\.?", re.ASCII)
_SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
# A digit that belongs to a word, an index, a factorial or a product (2x, 3m) is not a number of its own; a unit may touch it (5cm).
_TOKEN = re.compile(r"(?<![\w.^{\\/-])" + _NUMBER + r"(?![A-Za-z](?![A-Za-z])|[\d_^{\\(]|\.\d|,\d|\s*!)", re.ASCII)
_UNIT_POWER = re.compile(r"(?<=[A-Za-z])(?:\^ ?\{? ?[23] ?\}?|[²³])")
_FORMULA = re.compile(r"[0-9+*/^\\{}<>|]")
# Words that make another number of the one they stand beside, or deny it: whatever they say it about, and around it alone.
_DENIES = (
    r"negative|minus|opposite|not|non|never|neither|nor|no|none|cannot|without|except|excluding|unless|otherwise|else|instead|"
    r"incorrect|wrong|false|untrue|impossible|at least|at most|more|less|fewer|under|over|above|below|beyond|exceed(?:s|ing)?|than|"
    r"almost|nearly|up to|close to|prior to|next to|opposed to|twice|thrice|doubled?|tripled?|quadrupled?|half|times|[a-z]*fold"
)
_CHANGES_NAME = re.compile(
    rf"\b(?:{_DENIES})\b|n['\u2019]t\b|\b[b-z] (?:squared|cubed|factorial)\b|"
    r"\b(?:square|cube|root|log|logarithm|reciprocal|inverse|absolute value|sine|cosine|tangent) of [b-z]\b",
    re.IGNORECASE,
)
_CHANGES_NUMBER = re.compile(
    rf"\b(?:{_DENIES}|plus|complement|inverse|reciprocal|negated?|additive|excludes|unlike|if|rather|but|least|most|greater|larger|"
    r"bigger|smaller|higher|lower|within|between|bound(?:ed)?|limit(?:ed)?|subtract(?:ed|ing)?|add(?:ed|ing)?|"
    r"multipl(?:y|ied|ying|es?)|divi(?:de[ds]?|ding|sors?|sible)|increased|decreased|reduced|halves|halved|thirds|fourths|"
    r"quarters?|fifths|sixths|sevenths|eighths|ninths|tenths|(?:hundred|thousand|million|billion|trillion)(?:ths?|s)?|dozens?|gross|"
    r"powers?|roots?|squared|cubed|(?:square|cube|factors?|digits?) of|factorial|log|logarithm|ln|exp|exponential|sin|sine|cos|"
    r"cosine|tan|tangent|sqrt|mod|modulo|point|or|and|either|maybe|perhaps|possibly|probably|might|may)\b|n['\u2019]t\b",
    re.IGNORECASE,
)
_NUMBER_WORD = (
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|[a-z]{3,5}teen|twenty|thirty|forty|fifty|sixty|seventy|"
    r"eighty|ninety)\b"
)
_NUMBER_BEFORE, _NUMBER_AFTER = (
    re.compile(_NUMBER_WORD, re.IGNORECASE),
    re.compile(rf"\A\s?(?:\w+\s)?{_NUMBER_WORD}", re.IGNORECASE),
)
_SAYS = re.compile(r".*\b(?:is|are|equals?|be|was|were)\b|.*:", re.IGNORECASE | re.DOTALL)
# A segment may be called NO.
_CAPITALS = re.compile(r"\b[A-Z]{2,3}\b")
_BEFORE_NUMBER = re.compile(
    r"\b(?:before|after|past|until|till|from|against|near|toward|towards|versus|vs|into|squares?|cubes?)(?:\s(?:the|a|an))?\s?$|"
    r"\b(\w+) of(?:\s(?:the|about|exactly|only|just|approximately))?\s?$",
    re.IGNORECASE,
)
_MEASURED = re.compile(
    r"answer|value|total|sum|amount|number|result|count|length|width|height|depth|area|volume|perimeter|circumference|radius|diameter|"
    r"distance|speed|rate|price|cost|profit|age|weight|mass|score|average|mean|median|minimum|maximum|probability|measure|size|"
    r"difference|product|quotient|remainder|angle|time|period|duration|balance|solution",
    re.IGNORECASE,
)
_APPROXIMATELY = re.compile(r"\\approx(?![A-Za-z])|≈")


def normalize_spelling(text: str) -> str:
    """Return the text in one spelling: unicode signs, wrappers, delimiters, currency, spacing and percent made uniform."""
    text = _DEGREES.sub("", text.translate(_TRANSLATE))
    for _ in range(3):
        text = _WRAPPER.sub(r"\1", text)
    text = _GROUP_GAP.sub(",", text)
    text = _PERCENT.sub("%", _DROPPED.sub("", text))
    return _SPACING.sub(" ", text).strip()


def read_number(text: str) -> Number | None:
    """Read a text that is one number and nothing else."""
    if len(text) > MAX_CHARS:
        return None
    match = _WHOLE.fullmatch(normalize_spelling(text))
    return _number(match) if match else None


def only_number(text: str) -> Number | None:
    """Read the one number of a text that may have words and units around it.

    After an equals sign the last side counts (`12 + 25 = 37` is 37), before an "approximately" the exact one. With two numbers, or
    with anything of a formula beside the number, or with a word that changes it (`at least`, `minus`, `twice`), there is none:
    nothing is guessed from a part.
    """
    if len(text) > MAX_CHARS:
        return None
    side = _APPROXIMATELY.split(normalize_spelling(_UNIT_POWER.sub("", text)))[0].rsplit("=", 1)[-1]
    matches = list(_TOKEN.finditer(side))
    if len(matches) != 1:
        return None
    before, after = side[: matches[0].start()], side[matches[0].end() :]
    if _FORMULA.search(before + after) or changes_number(before, after):
        return None
    return _number(matches[0])


def changes_number(before: str, after: str = "") -> bool:
    """Tell whether words around a number make another number of it, or deny it: a sign, a comparison, a multiple, a "not"."""
    described = _SAYS.match(before)
    beside = before[described.end() :] if described else before
    if denies(before) or _CHANGES_NUMBER.search(beside) or _CHANGES_NUMBER.search(after):
        return True
    if _NUMBER_BEFORE.search(beside) or _NUMBER_AFTER.match(after):
        return True
    last = _BEFORE_NUMBER.search(beside)
    return last is not None and (last[1] is None or _MEASURED.fullmatch(last[1]) is None)


def denies(name: str) -> bool:
    """Tell whether a name or label says that its value is not the one that is meant (`not`, `less than`, `twice`)."""
    return _CHANGES_NAME.search(_CAPITALS.sub("", name)) is not None


def same_number(gold: Number, answer: Number) -> bool:
    """Tell whether two numbers are equal, exactly.

    Two exceptions, both written rules: a percent sign on one side only, where `25%` equals 0.25 and also 25 (from 1% on); and
    an answer of at least `MIN_ROUNDED_DIGITS` significant digits, which equals the endless fraction that rounds to it.
    """
    if gold.is_percent == answer.is_percent:
        return gold.value == answer.value or _rounds_to(gold, answer)
    percent, plain = (gold, answer) if gold.is_percent else (answer, gold)
    return percent.value / 100 == plain.value or (percent.value == plain.value and abs(plain.value) >= 1)


def _rounds_to(gold: Number, answer: Number) -> bool:
    for exact, rounded in ((gold, answer), (answer, gold)):
        digits = rounded.num_decimal_digits
        if digits >= MIN_ROUNDED_DIGITS and not exact.num_decimal_digits and not _is_finite_decimal(exact.value):
            return abs(exact.value - rounded.value) <= rounding_error(rounded.value, digits)
    return False


def rounding_error(rounded: Fraction, num_digits: int) -> Fraction:
    """Return how far a number may lie from the decimal of so many significant digits that it rounds to.

    Half a unit in the last place. From 15 digits on a whole one: a double prints 2/3 as 0.6666666666666666.
    """
    exponent, size = 0, abs(rounded)
    while size >= 10:
        size, exponent = size / 10, exponent + 1
    while 0 < size < 1:
        size, exponent = size * 10, exponent - 1
    unit = Fraction(10) ** (exponent + 1 - num_digits)
    return unit if num_digits >= _DOUBLE_DIGITS else unit / 2


def _is_finite_decimal(value: Fraction) -> bool:
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1


def _number(match: re.Match[str]) -> Number | None:
    part = match.groupdict()
    digits = 0
    if top := part["top"] or part["top1"]:
        value = _ratio(part["whole"], top, part["bottom"] or part["bottom1"])
    elif part["over"]:
        value = _ratio(part["mixed"], part["over"], part["under"])
    elif power := part["power"] or part["power1"]:
        value = _scaled(part["plain"] or "1", power)
    else:
        value = _scaled(part["decimal"], part["exponent"] or "0")
        digits = len(part["decimal"].replace(",", "").replace(".", "").lstrip("0")) if "." in part["decimal"] else 0
    if value is None:
        return None
    if part["scale"]:
        value *= _SCALES[part["scale"].strip()]
    is_negative = (part["sign"] or "").startswith("-")
    return Number(-value if is_negative else value, bool(part["percent"]), digits)


def _ratio(whole: str | None, top: str, bottom: str) -> Fraction | None:
    below = _fraction(bottom)
    return None if below == 0 else Fraction(int(whole or "0")) + _fraction(top) / below


def _scaled(digits: str, power: str) -> Fraction | None:
    exponent = int(power)
    return None if abs(exponent) > MAX_EXPONENT else _fraction(digits) * Fraction(10) ** exponent


def _fraction(digits: str) -> Fraction:
    return Fraction(digits.replace(",", ""))
