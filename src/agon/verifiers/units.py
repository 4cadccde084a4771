r"""Units after a number or a formula: split off, and told apart.

A lone letter is a unit only where it is marked as text: `3n` is a product, `3\text{ m}` a length.
"""

from __future__ import annotations

import re

from agon.numerals import changes_number
from agon.verifiers.spelling import plain_spelling

_WRAPPED_UNIT = re.compile(
    r"(.*[^\s\\])\s*\\?\s?\\(?:text|textbf|textrm|mathrm|mbox)\s?\{\s?((?!and\b|or\b)[A-Za-z][A-Za-z ./]*)\}\s?(\^\s?\{?[23]\}?)?",
    re.DOTALL,
)
_NUMBER_UNIT = re.compile(
    r"([-+]?(?:\d[\d,]*(?:\.\d+)?|\.\d+|\d+\s?/\s?\d+|\\[dt]?frac\s?\{?\d+\}?\s?\{?\d+\}?))(\s?)((?!and\b|or\b)[A-Za-z][A-Za-z ./]*)(\^\s?\{?[23]\}?)?"
)
_FORMULA_UNIT = re.compile(r"(.*[\d})])\s+((?!and\b|or\b)[A-Za-z][A-Za-z ./]{2,})(\^\s?\{?[23]\}?)?", re.DOTALL)
_STATED = re.compile(
    r"(?:.*[\d}\).])?\s*(?P<degree>\^\s?\{?\s?\\circ\s?\}?\s?)?"
    r"(?P<unit>(?!and\b|or\b)[A-Za-zµμΩ][A-Za-zµμΩ ./]*(?:\^\s?\{?-?[0-9]\}?[A-Za-z ./]*)?|\\?%|'{1,2}|¢)?\s*",
    re.DOTALL,
)
_CURRENCY = re.compile(r"\s*(-?)\s*(\\\$|\$|€|£|¥|\\pounds|\\euro)\s?(?=-?[\d.])|(?<=\d)\s?(€|£|¥|¢)\s*$")
_CURRENCIES = {
    "$": "dollar",
    r"\$": "dollar",
    "€": "euro",
    r"\euro": "euro",
    "£": "£",
    r"\pounds": "£",
    "¥": "yen",
    "¢": "cent",
}
_GENERIC = {"unit", "total", "altogether", "approximately", "exactly", "each", "th"}

# As written: the case of a prefix tells milli from mega.
_ABBREVIATIONS = (
    {prefix + unit: prefix + unit for prefix in ("", "n", "μ", "m", "c", "d", "k", "M", "G") for unit in (*"mgLsWJNVAK", "Hz", "Pa", "eV", "Wh")}
    | {unit: unit for unit in ("in", "ft", "mi", "yd", "min", "lb", "oz", "gal", "qt", "pt", "T", "mol", "cal", "rad", "bit", "B", "kB", "MB", "GB", "TB")}
    | {"hr": "h", "h": "h", "sec": "s", "yr": "year", "wk": "week", "mo": "month", "l": "L", "ml": "mL", "cl": "cL", "dl": "dL", "kcal": "kcal", "deg": "degree"}
    | {"USD": "dollar", "EUR": "euro", "GBP": "£", "INR": "rupee", "%": "percent", r"\%": "percent", "'": "arcminute", "''": "arcsecond", "¢": "cent"}
    | {"C": "celsius", "F": "fahrenheit", "mph": "mi/h", "kph": "km/h", "kmh": "km/h", "fps": "ft/s", "rpm": "revolution/min", "lbs": "lb"}
)  # fmt: skip
_PREFIXES = {
    "milli": "m",
    "centi": "c",
    "deci": "d",
    "kilo": "k",
    "mega": "M",
    "giga": "G",
    "micro": "μ",
    "nano": "n",
    "": "",
}
_NAMES = {
    "meter": "m", "metre": "m", "gram": "g", "liter": "L", "litre": "L", "second": "s", "watt": "W", "joule": "J", "newton": "N",
    "volt": "V", "ampere": "A", "amp": "A", "hertz": "Hz", "pascal": "Pa", "byte": "B",
}  # fmt: skip
_WORDS = {prefix + name: _PREFIXES[prefix] + unit for prefix in _PREFIXES for name, unit in _NAMES.items()} | {
    "inch": "in", "inche": "in", "foot": "ft", "feet": "ft", "mile": "mi", "yard": "yd", "minute": "min", "hour": "h", "day": "day",
    "week": "week", "month": "month", "year": "year", "decade": "decade", "century": "century", "centurie": "century", "pound": "lb",
    "ounce": "oz", "gallon": "gal", "quart": "qt", "pint": "pt", "cup": "cup", "ton": "ton", "tonne": "T", "kelvin": "K", "calorie": "cal",
    "dollar": "dollar", "cent": "cent", "buck": "dollar", "euro": "euro", "yen": "yen", "rupee": "rupee", "penny": "cent", "pennie": "cent", "nickel": "nickel",
    "dime": "dime", "degree": "degree", "radian": "rad", "acre": "acre", "hectare": "hectare", "percent": "percent", "percentage": "percent", "pct": "percent", "celsiu": "celsius",
    "fahrenheit": "fahrenheit", "mph": "mi/h", "kph": "km/h", "kmh": "km/h", "cm": "cm", "mm": "mm", "km": "km", "kg": "kg", "mg": "mg",
    "hz": "Hz", "khz": "kHz", "mhz": "MHz", "ghz": "GHz", "kilometer per hour": "km/h", "hr": "h", "sec": "s", "ft": "ft", "lb": "lb", "oz": "oz", "usd": "dollar",
}  # fmt: skip
_SQUARED = {"square": "2", "sq": "2", "cubic": "3", "cu": "3", "squared": "2", "cubed": "3"}


def split_unit(text: str) -> tuple[str, str]:
    """Return the formula and the unit after it: one marked as text, or words after a plain number. The unit may be empty.

    Letters that touch a number are a unit only if they are a known one of more than one letter: `5cm` is a length, `12x` and `12m`
    are products. Words that change a number (`halves`, `squared`) are none.
    """
    if match := _WRAPPED_UNIT.fullmatch(text):
        unit = match[2].strip()
        return (text, "") if _is_no_unit(unit) else (match[1].strip(), unit.lower() + _power(match[3]))
    match = _NUMBER_UNIT.fullmatch(text)
    if match is None:
        match = _FORMULA_UNIT.fullmatch(text)
        is_unit = match is not None and (_known_unit(match[2]) or _is_generic(match[2]))
        return (match[1], match[2].strip().lower() + _power(match[3])) if match and is_unit else (text, "")
    if _is_no_unit(match[3]):
        return text, ""
    unit = match[3].strip()
    is_word = bool(match[2]) and any(len(word) >= 3 for word in unit.split())
    is_known = len(unit) > 1 and _known_unit(unit) is not None
    return (match[1].strip(), unit.lower() + _power(match[4])) if is_word or is_known else (text, "")


def stated_unit(text: str) -> str:
    """Return the unit that an answer as written ends with, or its currency, known units in one spelling; empty where there is none."""
    if money := _currency(text):
        return money
    match = _STATED.fullmatch(plain_spelling(text))
    if match is None:
        return ""
    unit = (match["unit"] or "").strip(" .")
    if match["degree"]:
        return (_known_unit(unit) or unit) if unit else "degree"
    known = _known_unit(unit) if unit else None
    is_word = any(len(word) >= 3 for word in unit.split()) and re.match(r".*?\d", text, re.DOTALL) is not None
    return known or (unit if is_word else "")


def are_other_units(first: str, second: str) -> bool:
    """Tell whether two units differ: both known and not the same, or other words (more words about the same thing are no others)."""
    if not first or not second or first == second:
        return False
    known = [_known_unit(unit) for unit in (first, second)]
    if None not in known:
        return known[0] != known[1]
    if _is_generic(first) or _is_generic(second):
        return False
    one, other = ({_singular(word) for word in re.findall(r"[a-z]+", unit.lower())} for unit in (first, second))
    return not (one <= other or other <= one) or ("per" in one) != ("per" in other)


def have_other_units(gold: str, answer: str) -> bool:
    """Tell whether two answers as written end with units, or start with currencies, that differ."""
    one, other = stated_unit(gold), stated_unit(answer)
    if {one, other} == {"degree", "rad"}:
        # an angle may be written either way; a number of radians without pi is none of degrees
        return re.search(r"\\pi|π|\bpi\b", gold if one == "rad" else answer) is None
    return are_other_units(one, other)


def _is_generic(unit: str) -> bool:
    words = {_singular(word) for word in re.findall(r"[a-z]+", unit.lower())}
    return not words - _GENERIC - ({"square", "sq", "cubic"} if "unit" in words else set())


def _currency(text: str) -> str:
    is_delimited = text.strip().startswith("$") and text.count("$") % 2 == 0
    match = _CURRENCY.match(text) or _CURRENCY.search(text)
    if match is None or is_delimited:
        inner = text.strip().strip("$") if is_delimited else ""
        return _currency(inner) if inner and inner != text else ""
    return _CURRENCIES[match[2] or match[3]]


def _is_no_unit(words: str) -> bool:
    return changes_number("", re.sub(r"\b(?:square|cubic)\s|(?<=[a-z])\s(?:squared|cubed)\b", "", words))


def _power(text: str | None) -> str:
    return re.sub(r"[^0-9]", "", text or "")


def _singular(word: str) -> str:
    return word if len(word) < 3 else word.removesuffix("s")


def _known_unit(unit: str) -> str | None:
    """One spelling of a unit made of known ones (`m/s2`), None if a part of it is not known."""
    parts = [_known_part(part) for part in re.split(r"\s?/\s?|\sper\s", unit.strip())]
    return "/".join(part for part in parts if part) if all(parts) else None


def _known_part(part: str) -> str | None:
    power = "".join(re.findall(r"[0-9]", part))[:1]
    words = [word.rstrip(".") for word in re.sub(r"\^?\s?\{?-?[0-9]\}?", " ", part).split()]
    for end in (0, -1):
        if len(words) > 1 and words[end].lower() in _SQUARED:
            power = _SQUARED[words.pop(end).lower()]
    name = " ".join(words)
    known = _ABBREVIATIONS.get(name) or _WORDS.get(_singular(name.lower())) or _WORDS.get(name.lower())
    return None if known is None else known + ("" if power == "1" else power)
