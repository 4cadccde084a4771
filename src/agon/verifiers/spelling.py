r"""One spelling for the many ways people and models write the same mathematical answer. Pure text, linear time.

Nothing is interpreted here: unicode signs become LaTeX, wrappers and decoration go, thousands groups lose their separators, and
words are told apart from formulas.
"""

from __future__ import annotations

import re

from agon.answers import unwrap_boxes

MAX_CHARS = 2_000

_SIGNS = {
    "−": "-", "–": "-", "×": r"\times ", "·": r"\cdot ", "÷": r"\div ", "π": r"\pi ", "∞": r"\infty ", "≤": r"\le ",
    "≥": r"\ge ", "≠": r"\ne ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "±": r"\pm ", "°": r"^\circ ", "∅": r"\emptyset ",
    "≈": r"\approx ", "θ": r"\theta ", "α": r"\alpha ", "β": r"\beta ", "λ": r"\lambda ", "φ": r"\varphi ",
    "²": "^{2}", "³": "^{3}", "½": r"\frac{1}{2}", "⅓": r"\frac{1}{3}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}",
    "⅔": r"\frac{2}{3}", "\u00a0": " ", "\u2009": r"\,", "\u202f": r"\,", "⁄": "/",
}  # fmt: skip
_TRANSLATE = {0xFF01 + i: 0x21 + i for i in range(94)} | {ord(sign): latex for sign, latex in _SIGNS.items()}

_DELIMITERS = re.compile(
    r"\\[()\[\]](?![0-9])|\\?\$|\*\*|\\displaystyle(?![A-Za-z])|\\limits(?![A-Za-z])|\\(?:d|t|n)?boxed(?![A-Za-z])"
)
_TEXT = re.compile(
    r"\\(?:text|textbf|textit|textrm|textnormal|mathrm|mathbf|mathit|mathsf|mbox|operatorname)\s{0,4}\{([^{}]{0,400})\}"
)
_SIZES = re.compile(r"\\(?:left|right|big|Big|bigg|Bigg|bigl|bigr|Bigl|Bigr)(?![A-Za-z])\s?")
_SPACES = re.compile(r"\\[,;:!> ]|\\q?quad(?![A-Za-z])|~|\s+")
_GROUPED_LATEX = re.compile(r"(?<=\d)(?:\{,\}|,\s?\\!\s?|\\,|\\ )(?=\d{3}(?!\d))")
_GROUPED_PLAIN = re.compile(r"(?<![\d.,\\])[1-9]\d{0,2}(?:,\d{3})+(?!\d|,\d)")
_EXPONENT = re.compile(r"(?<![A-Za-z\d])(\d+(?:\.\d+)?|\.\d+)[eE]([+-]?\d{1,4})(?![A-Za-z\d])")
_PERCENT = re.compile(
    r"\s?(?:\\?%|(?:\\(?:text|mathrm|mbox)\s?\{)?\s?\b(?:percentage|percent|per cent|pct)\b\.?(?:\s?\})?)"
)
_ROOT = re.compile(r"√\s?(?:(\d+|[A-Za-z])|(?=[({]))|(?<![A-Za-z\\])sqrt(?=[({])")
_PI = re.compile(r"(?<![A-Za-z\\])pi(?![A-Za-z])")
_BARE_DENOMINATOR = re.compile(r"(\\[dt]?frac\s?\{[^{}]{1,200}\})\s?([A-Za-z0-9])")
_SET_BUILDER = re.compile(r"\\\{\s?[A-Za-z](?:\s?\\in\s?(?:\\mathbb\s?\{?R\}?|R))?\s?(?:\||\\mid|:)(.+)\\\}")
_NAMED = re.compile(r"\\?[A-Za-z]+(?:_(?:\{[^{}]{1,20}\}|\w))?(?:\s?\(\s?[^()=]{1,20}\))?\s?=([^=]+)")
_BASE = re.compile(r"(\d+)_\{?(\d{1,2})\}?")
_WORDS = re.compile(r"[A-Za-z][A-Za-z' -]*")
_CHOICE = re.compile(r"\(?([A-Z])\)?[.)]?")
_SPAN = re.compile(r"\$\$([^$]+)\$\$|\$([^$]+)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_WRAPPED_UNIT = re.compile(
    r"(.*[^\s\\])\s*\\?\s?\\(?:text|textbf|textrm|mathrm|mbox)\s?\{\s?((?!and\b|or\b)[A-Za-z][A-Za-z .]*)\}\s?(\^\s?\{?[23]\}?)?",
    re.DOTALL,
)
_NUMBER_UNIT = re.compile(
    r"([-+]?(?:\d[\d,]*(?:\.\d+)?|\.\d+|\d+\s?/\s?\d+|\\[dt]?frac\s?\{?\d+\}?\s?\{?\d+\}?))\s?((?!and\b|or\b)[A-Za-z][A-Za-z .]*)(\^\s?\{?[23]\}?)?"
)
_KNOWN_UNITS = {
    "cm": "cm, centimeter, centimetre", "mm": "mm, millimeter, millimetre", "m": "m, meter, metre", "in": "in, inch, inche",
    "km": "km, kilometer, kilometre", "ft": "ft, foot, feet", "mi": "mi, mile", "yd": "yd, yard", "s": "s, sec, second",
    "min": "min, minute", "h": "h, hr, hour", "day": "day", "week": "week", "year": "year, yr", "g": "g, gram",
    "kg": "kg, kilogram", "lb": "lb, pound", "l": "l, liter, litre", "ml": "ml, milliliter, millilitre",
    "mph": "mph, mile per hour", "km/h": "kmh, kph, kilometer per hour",
}  # fmt: skip
_UNIT_OF_WORD = {word: unit for unit, words in _KNOWN_UNITS.items() for word in words.split(", ")}


def plain_spelling(text: str) -> str:
    """Return the text without boxes, math delimiters, text wrappers, bold, extra spaces and the closing full stop."""
    text = _DELIMITERS.sub("", unwrap_boxes(text)).translate(_TRANSLATE)
    for _ in range(3):
        text = _TEXT.sub(r"\1", text)
    text = _SPACES.sub(" ", _SIZES.sub("", text)).strip()
    return text[:-1].rstrip() if text.endswith(".") else text


def is_same_text(gold: str, answer: str) -> bool:
    """Tell whether two answers are written alike: formulas to the letter, words without case."""
    first, second = plain_spelling(gold), plain_spelling(answer)
    if is_words(gold):
        choice, chosen = _CHOICE.fullmatch(first), _CHOICE.fullmatch(second)
        return choice[1] == chosen[1] if choice and chosen else first.casefold() == second.casefold()
    return "".join(first.split()) == "".join(second.split()) != ""


def is_words(text: str) -> bool:
    """Tell whether an answer is words (`Evelyn`, `no`, a choice such as `(B)`) and no formula.

    A lower-case letter is a variable, and two letters a product, unless they are marked as text or are `no`.
    """
    plain = plain_spelling(text)
    if _CHOICE.fullmatch(plain):
        return True
    if not _WORDS.fullmatch(plain):
        return False
    return bool(_TEXT.search(text)) or plain.casefold() == "no" or any(len(word) >= 3 for word in plain.split())


def latex_spelling(text: str) -> str:
    """Return the answer as LaTeX that a grammar can be asked to read as a whole.

    Of words around one formula between delimiters the formula is taken; with two formulas nothing is.
    """
    text = unwrap_boxes(text).translate(_TRANSLATE)
    spans = list(_SPAN.finditer(text))
    if len(spans) == 1 and not re.search(
        r"[\d=<>+*/^\\]", text[: spans[0].start()] + text[spans[0].end() :].strip(" %.")
    ):
        after = text[spans[0].end() :]
        text = next(group for group in spans[0].groups() if group) + (after if _PERCENT.match(after) else "")
    text = _DELIMITERS.sub("", text)
    text = _PI.sub(r"\\pi ", _braced_roots(text))
    text = _ungrouped(_GROUPED_LATEX.sub("", text))
    text = _EXPONENT.sub(r"\1 \\cdot 10^{\2}", text)
    text = _PERCENT.sub(r"\\%", text)
    text = _BARE_DENOMINATOR.sub(r"\1{\2}", text)
    text = _SIZES.sub("", text).strip().rstrip("\\").rstrip()
    text = text[:-1].rstrip() if text.endswith(".") else text
    condition = _SET_BUILDER.fullmatch(text)
    return condition[1].strip() if condition else text


def without_name(text: str) -> str | None:
    r"""Return what a simple name is said to equal (`I_{\max} = 5`), None for any other text."""
    match = _NAMED.fullmatch(text)
    return match[1].strip() if match else None


def split_unit(text: str) -> tuple[str, str]:
    """Return the formula and the unit after it: one marked as text, or words after a plain number. The unit may be empty."""
    match = _WRAPPED_UNIT.fullmatch(text) or _NUMBER_UNIT.fullmatch(text)
    if match is None:
        return text, ""
    power = re.sub(r"[^23]", "", match[3] or "")
    return match[1].strip(), match[2].strip().lower() + power


def are_other_units(first: str, second: str) -> bool:
    """Tell whether two units are both known and differ. An unknown word after a number says nothing."""
    known = [_known_unit(unit) for unit in (first, second)]
    return None not in known and known[0] != known[1]


def number_in_base(text: str) -> tuple[str, int] | None:
    """Return digits and base of a number such as `204_5`."""
    match = _BASE.fullmatch("".join(plain_spelling(text).split()))
    return (match[1], int(match[2])) if match else None


def _known_unit(unit: str) -> str | None:
    power = unit[-1:] if unit[-1:] in ("2", "3") else ""
    words = " ".join(word.rstrip(".").removesuffix("s") or word for word in unit.removesuffix(power).split())
    squared = {"square ": "2", "sq ": "2", "cubic ": "3"}
    for prefix, exponent in squared.items():
        if words.startswith(prefix):
            words, power = words.removeprefix(prefix), exponent
    known = _UNIT_OF_WORD.get(words)
    return None if known is None else known + power


def _ungrouped(text: str) -> str:
    """Drop the commas of thousands groups that stand outside every bracket: inside one, a comma separates."""
    depth, position, pieces = 0, 0, list[str]()
    for match in re.finditer(r"[(\[{]|[)\]}]|" + _GROUPED_PLAIN.pattern, text):
        if match.group() in "([{":
            depth += 1
        elif match.group() in ")]}":
            depth -= 1
        elif depth <= 0:
            pieces += [text[position : match.start()], match.group().replace(",", "")]
            position = match.end()
    return "".join(pieces) + text[position:]


def _braced_roots(text: str) -> str:
    r"""Write `√2`, `√(x)` and `sqrt(x)` as `\sqrt{…}`."""
    text = _ROOT.sub(lambda match: rf"\sqrt{{{match[1]}}}" if match[1] else r"\sqrt", text)
    position = 0
    while (start := text.find(r"\sqrt(", position)) >= 0:
        position = start + len(r"\sqrt(")
        end = _closing(text, position)
        if end is None:
            break
        text = text[: position - 1] + "{" + text[position:end] + "}" + text[end + 1 :]
    return text


def _closing(text: str, position: int) -> int | None:
    depth = 1
    for index in range(position, len(text)):
        depth += (text[index] == "(") - (text[index] == ")")
        if depth == 0:
            return index
    return None
