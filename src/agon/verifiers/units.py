r"""Units after a number or a formula: split off, and told apart where both are known."""

from __future__ import annotations

import re

_WRAPPED_UNIT = re.compile(
    r"(.*[^\s\\])\s*\\?\s?\\(?:text|textbf|textrm|mathrm|mbox)\s?\{\s?((?!and\b|or\b)[A-Za-z][A-Za-z ./]*)\}\s?(\^\s?\{?[23]\}?)?",
    re.DOTALL,
)
_NUMBER_UNIT = re.compile(
    r"([-+]?(?:\d[\d,]*(?:\.\d+)?|\.\d+|\d+\s?/\s?\d+|\\[dt]?frac\s?\{?\d+\}?\s?\{?\d+\}?))(\s?)((?!and\b|or\b)[A-Za-z][A-Za-z ./]*)(\^\s?\{?[23]\}?)?"
)
_KNOWN_UNITS = {
    "cm": "cm, centimeter, centimetre", "mm": "mm, millimeter, millimetre", "m": "m, meter, metre", "in": "in, inch, inche",
    "km": "km, kilometer, kilometre", "ft": "ft, foot, feet", "mi": "mi, mile", "yd": "yd, yard", "s": "s, sec, second",
    "min": "min, minute", "h": "h, hr, hour", "day": "day", "week": "week", "year": "year, yr", "g": "g, gram",
    "kg": "kg, kilogram", "lb": "lb, pound", "l": "l, liter, litre", "ml": "ml, milliliter, millilitre",
    "mph": "mph, mile per hour", "km/h": "km/h, kmh, kph, kilometer per hour", "m/s": "m/s, meter per second",
    "n": "n, newton", "j": "j, joule", "w": "w, watt", "v": "v, volt", "ev": "ev", "hz": "hz, hertz",
}  # fmt: skip
_UNIT_OF_WORD = {word: unit for unit, words in _KNOWN_UNITS.items() for word in words.split(", ")}


def split_unit(text: str) -> tuple[str, str]:
    """Return the formula and the unit after it: one marked as text, or words after a plain number. The unit may be empty.

    Letters that touch a number are a unit only if they are a known one: `5cm` is a length, `12x` a product.
    """
    if match := _WRAPPED_UNIT.fullmatch(text):
        return match[1].strip(), match[2].strip().lower() + _power(match[3])
    match = _NUMBER_UNIT.fullmatch(text)
    if match is None:
        return text, ""
    unit = match[3].strip().lower() + _power(match[4])
    is_word = bool(match[2]) and any(len(word) >= 3 for word in unit.split())
    return (match[1].strip(), unit) if is_word or _known_unit(unit) else (text, "")


def are_other_units(first: str, second: str) -> bool:
    """Tell whether two units are both known and differ. An unknown word after a number says nothing."""
    known = [_known_unit(unit) for unit in (first, second)]
    return None not in known and known[0] != known[1]


def _power(text: str | None) -> str:
    return re.sub(r"[^23]", "", text or "")


def _known_unit(unit: str) -> str | None:
    power = unit[-1:] if unit[-1:] in ("2", "3") else ""
    words = " ".join(word.rstrip(".").removesuffix("s") or word for word in unit.removesuffix(power).split())
    squared = {"square ": "2", "sq ": "2", "cubic ": "3"}
    for prefix, exponent in squared.items():
        if words.startswith(prefix):
            words, power = words.removeprefix(prefix), exponent
    known = _UNIT_OF_WORD.get(words)
    return None if known is None else known + power
