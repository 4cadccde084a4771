r"""One spelling for the many ways people and models write the same mathematical answer. Pure text, linear time.

Nothing is interpreted here: unicode signs become LaTeX, wrappers and decoration go, thousands groups lose their separators, and
words are told apart from formulas.
"""

from __future__ import annotations

import re

from agon.verifiers.whole_sets import whole_set
from agon.verifiers.wrapping import without_wrapping

MAX_CHARS = 2_000

_SIGNS = {
    "−": "-", "–": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "÷": r"\div ", "π": r"\pi ", "∞": r"\infty ",
    "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "±": r"\pm ", "∓": r"\mp ", "°": r"^\circ ",
    "∅": r"\emptyset ", "≈": r"\approx ", "∀": r"\forall ", "ℝ": r"\mathbb{R}", "θ": r"\theta ", "α": r"\alpha ",
    "β": r"\beta ", "λ": r"\lambda ", "φ": r"\varphi ", "⁄": "/",
    "½": r"\frac{1}{2}", "⅓": r"\frac{1}{3}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}", "⅔": r"\frac{2}{3}",
    "\u00a0": " ", "\u2009": r"\,", "\u202f": r"\,", "“": "", "”": "",
    "¢": r"\text{ cents}",
}  # fmt: skip
_LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", strict=True))
_CIRCLED = {chr(0x2460 + i): str(i + 1) for i in range(20)}
_TRANSLATE = {0xFF01 + i: 0x21 + i for i in range(94)} | {ord(sign): latex for sign, latex in _SIGNS.items()}

_LOWERED_RUN = re.compile("[₀-₉]+")
_RAISED_RUN = re.compile("[⁰¹²³⁴-⁹]+")
# `m²` after a number is how people write a unit, `m^2` how they write a formula.
_METERS = re.compile("(?<=[0-9])\\s?([kcmd]?m)([²³])(?!\\w)")
_CIRCLED_RUN = re.compile("[①-⑳](?:[\\s,]{0,2}[①-⑳])*")
# What was escaped once too often (`\\\\frac`); before other letters two backslashes end a row.
_DOUBLED = re.compile(
    r"(?<!\\)\\\\(?=(?:left|right|[dt]?frac|sqrt|text|pi|cdot|times|leq?|geq?|in|infty|cup|pm|boxed|circ)(?![A-Za-z]))"
)
_RAISED_O = re.compile(r"\^\s?\{\s?\\(?:text|mathrm|rm)\s?\{\s?o\s?\}\s?\}")
_EMPTY_GROUP = re.compile(r"(?<=[0-9])\{\s?\}")
_UNION = re.compile(r"(?<=[)\]])\s?U\s?(?=(?:\\left)?[(\[])")
_HTML = re.compile(r"<(su[pb])>([^<>]{1,200})</\1>", re.IGNORECASE)
_DELIMITERS = re.compile(
    r"\\[()\[\]](?![0-9])|\\?\$|\*\*|\\displaystyle(?![A-Za-z])|\\limits(?![A-Za-z])|\\(?:begin|d|t|n)?boxed(?![A-Za-z])"
)
_PYTHON_POWER = re.compile(r"(?<=[\w)\]}])\*\*(?=[\w(\\-])(?!\w{1,40}\*\*(?:\W|$))")
_TEXT = re.compile(
    r"\\(?:text|textbf|textit|textrm|textnormal|mathrm|mathbf|mathit|mathsf|mbox|operatorname)\s{0,4}\{([^{}]{0,400})\}"
)
_ROMAN_LETTER = re.compile(
    r"\\(?:mathrm|text|textrm|operatorname)\s?\{\s?([ei])\s?\}|(?<=_)\\(?:mathrm|text)\s?\{(\w)\}"
)
_ROMAN_INDEX = re.compile(r"(?<=_\{)\s?\\(?:mathrm|text|textrm)\s?\{([^{}]{1,20})\}\s?(?=\})")
_SIZES = re.compile(r"\\(?:left|right|big|Big|bigg|Bigg|bigl|bigr|Bigl|Bigr)(?![A-Za-z])\s?")
_SPACES = re.compile(r"\\[,;:!> ]|\\q?quad(?![A-Za-z])|~|\s+")
_NO_GAP = re.compile(r"(?<!\\)\\!|^\s*(?:\\approx(?![A-Za-z])|=)\s*")
_GAPS = re.compile(r"(?<!\\)\\[,;:> ]|(?<!\\)\\q?quad(?![A-Za-z])|~")
_GROUPED_LATEX = re.compile(r"(?<=\d)(?:\{,\}|,\s?\\!\s?|\\,|\\ )(?=\d{3}(?!\d))")
_GROUPED_PLAIN = re.compile(r"(?<![\d.,\\])[1-9]\d{0,2}(?:,\d{3})+(?!\d|,\d)")
_EXPONENT = re.compile(r"(?<![A-Za-z\d])(\d{1,400}(?:\.\d{1,400})?|\.\d{1,400})[eE]([+-]?\d{1,4})(?![A-Za-z\d])")
_PERCENT = re.compile(
    r"\s?(?:\\?%|(?:\\(?:text|mathrm|mbox)\s?\{)?\s?\b(?:percentage|percent|per cent|pct)\b\.?(?:\s?\})?)"
)
_ORDINAL = re.compile(r"(?<=\d)\s?(?:\^\s?\{?\s?)?(?:\\(?:text|mathrm|textrm)\s?\{\s?)?(?:st|nd|rd|th)\b(?:\s?\}){0,2}")
_DEGREES = re.compile(r"\\degree(?![A-Za-z])|\s?(?:\\(?:text|mathrm)\s?\{)?\s?\bdegrees?\b(?:\s?\})?")
_TEMPERATURE = re.compile(
    r"\^\s?\{?\s?\\circ\s?\}?\s?(?:\\(?:text|mathrm)\s?\{\s?)?(?:C|F|Celsius|Fahrenheit)(?![A-Za-z])(?:\s?\})?"
)
_ROOT = re.compile(r"√\s?(?:(\d+|[A-Za-z])|(?=[({]))|(?<![A-Za-z\\])sqrt(?=[({])")
_PI = re.compile(r"(?<![A-Za-z\\])pi(?![A-Za-z])")
_BARE_DENOMINATOR = re.compile(r"(\\[dt]?frac\s?\{[^{}]{1,200}\})\s?([A-Za-z0-9])")
_SET_BUILDER = re.compile(r"\\\{\s?[A-Za-z](?:\s?\\in\s?(?:\\mathbb\s?\{?R\}?|R))?\s?(?:\||\\mid|:)(.+)\\\}")
_BASE_WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_BASE_NUMBERS = {word: number for number, word in enumerate(_BASE_WORDS, start=2)}
_BASE = re.compile(
    r"(?P<bracket>\()?(?P<digits>-?\d+(?:\.\d+)?)(?(bracket)\))"
    rf"(?:_\{{?|\(?(?:in)?base-?)(?P<base>\d{{1,2}}|(?:{'|'.join(_BASE_WORDS)})(?:teen)?)\)?\}}?"
)
_WORDS = re.compile(r"[A-Za-z][A-Za-z' -]*")
_CHOICE = re.compile(r"\(?([A-Z])\)?[.)]?")
_CHOICE_IN_ANY_CASE = re.compile(_CHOICE.pattern, re.IGNORECASE)
_CHOSEN = re.compile(r"\(?([A-Z])\)(?:[:.]?\s|(?=[0-9\\$]))[^()]{1,200}|([A-Z])[.:]\s[^()]{1,200}")
_OTHER_CHOICE = re.compile(
    r"\b(?:and|or|also|nor|not|but)\b[\s(]{1,3}(?:\w{1,8}\s)?\(?[A-Z]\b|[A-Z][).:]?\s?,?\s?(?:and|or|nor|not|but|is|isn't)\b|[,;/&]\s?\(?[A-Z]\b|\b(?:not|wrong|false)\s?\Z|\b(?:otherwise|if|unless|except)\b"
)
_CALLED_CHOICE = re.compile(
    r"(?:(?:the )?(?:correct |right |best |final )?(?:answer|option|choice)(?: is)?\s?:?\s?){1,2}(?=\(?[A-Z]\b)",
    re.IGNORECASE,
)
_SPAN = re.compile(r"\$\$([^$]+)\$\$|\$([^$]+)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)

_VECTOR = re.compile(r"\\(?:vec|overrightarrow|mathbf|boldsymbol|bm|hat|nabla)(?![A-Za-z])")
_PRODUCT_SIGN = re.compile(r"\\times(?![A-Za-z])|\\cdot(?![A-Za-z])")

_SYNONYMS = {
    r"\dfrac": r"\frac", r"\tfrac": r"\frac", r"\cfrac": r"\frac", r"\leq": r"\le", r"\leqslant": r"\le", r"\geq": r"\ge",
    r"\geqslant": r"\ge", r"\neq": r"\ne", r"\lt": "<", r"\gt": ">", r"\times": "*", r"\cdot": "*", r"\mid": "|",
    r"\varnothing": r"\emptyset", r"\colon": ":", r"\lvert": "|", r"\rvert": "|", r"\vert": "|", "<=": r"\le", ">=": r"\ge",
    "!=": r"\ne", r"\land": r"\wedge", r"\infin": r"\infty", "+\\infty": r"\infty",
}  # fmt: skip
_SYNONYM = re.compile(r"\+\\infty(?![A-Za-z])|\\[A-Za-z]+|<=|>=|!=")
_SINGLE_BRACES = re.compile(r"\{([A-Za-z0-9])\}")
_FREE_SPACE = re.compile(r"(?<!\d)\s+|\s+(?!\d)|(?<=\d)\s(?=\d{3}(?!\d))")


def plain_spelling(text: str) -> str:
    """Return the text without boxes, math delimiters, text wrappers, bold, extra spaces and a closing stop or comma."""
    text = _DELIMITERS.sub("", _in_latex_signs(without_wrapping(text)))
    for _ in range(3):
        text = _TEXT.sub(r"\1", text)
    text = _SPACES.sub(" ", _SIZES.sub("", text)).strip()
    return text[:-1].rstrip() if text.endswith((".", ",", ";")) else text


def same_signs(plain: str) -> str:
    r"""Return a formula in plain spelling with one sign for each meaning and no space, for comparing by the letter.

    `\dfrac`, `\leq` and `>=` become `\frac`, `\le` and `\ge`, braces around one character go. A space between two
    digits stays, unless it sets off a group of three (`1 000`).
    """
    plain = _SYNONYM.sub(lambda match: _SYNONYMS.get(match.group(), match.group()), plain)
    for _ in range(2):
        plain = _SINGLE_BRACES.sub(r"\1", plain)
    return _FREE_SPACE.sub("", plain)


def is_same_text(gold: str, answer: str) -> bool:
    """Tell whether two answers are written alike: formulas to the letter, words without case.

    A choice is its letter, whether or not what was chosen stands beside it (`B) 12`).
    """
    first, second = plain_spelling(gold), plain_spelling(answer)
    if whole := whole_set(first):
        return whole == whole_set(second)
    if _CHOICE.fullmatch(first) and is_words(gold):
        second = _CALLED_CHOICE.sub("", second)
    if not is_words(gold):
        is_alike = same_signs(first) == same_signs(second) != ""
        return is_alike and _products_of_vectors(gold) == _products_of_vectors(answer)
    if choice := _CHOICE.fullmatch(first):
        chosen = _CHOICE_IN_ANY_CASE.fullmatch(second) or (
            None if _OTHER_CHOICE.search(second) else _CHOSEN.fullmatch(second)
        )
        return chosen is not None and choice[1] == next(filter(None, chosen.groups())).upper()
    return first.casefold() == second.casefold()


def _products_of_vectors(text: str) -> list[str]:
    """The signs between vectors: a cross product is no scalar product."""
    return _PRODUCT_SIGN.findall(_in_latex_signs(text)) if _VECTOR.search(text) else []


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
    text = _in_latex_signs(without_wrapping(text))
    spans = list(_SPAN.finditer(text))
    if len(spans) == 1 and not re.search(
        r"[\d=<>+*/^\\]", text[: spans[0].start()] + text[spans[0].end() :].strip(" %.")
    ):
        after = text[spans[0].end() :]
        text = next(group for group in spans[0].groups() if group) + (after if _PERCENT.match(after) else "")
    text = _DELIMITERS.sub("", _PYTHON_POWER.sub("^", text))
    text = _ROMAN_LETTER.sub(lambda match: match[1] or match[2], _ROMAN_INDEX.sub(r"\1", text))
    text = _PI.sub(r"\\pi ", _braced(_ROOT.sub(_root, text)))
    text = _ungrouped(_GAPS.sub(" ", _NO_GAP.sub("", _GROUPED_LATEX.sub("", text))))
    text = _EXPONENT.sub(r"\1 \\cdot 10^{\2}", _ORDINAL.sub("", text))
    text = _PERCENT.sub(r"\\%", _DEGREES.sub(r"^\\circ ", text))
    text = _TEMPERATURE.sub(r"^\\circ", text)
    text = _BARE_DENOMINATOR.sub(r"\1{\2}", text)
    text = _SIZES.sub("", text).strip().rstrip("\\").rstrip()
    text = text[:-1].rstrip() if text.endswith((".", ",", ";")) else text
    condition = _SET_BUILDER.fullmatch(text)
    return condition[1].strip() if condition else text


def number_in_base(text: str) -> tuple[str, int] | None:
    """Return digits and base of a number such as `204_5`."""
    match = _BASE.fullmatch("".join(plain_spelling(text).split()))
    if match is None:
        return None
    base = match["base"]
    known = int(base) if base.isdigit() else 16 if base == "sixteen" else _BASE_NUMBERS.get(base)
    return (match["digits"], known) if known else None


def _in_latex_signs(text: str) -> str:
    text = _METERS.sub(lambda unit: rf"\text{{ {unit[1]}}}^{{{_RAISED[unit[2]]}}}", text)
    text = _RAISED_RUN.sub(lambda run: "^{" + "".join(_RAISED[digit] for digit in run.group()) + "}", text)
    text = _LOWERED_RUN.sub(lambda run: "_{" + "".join(_LOWERED[digit] for digit in run.group()) + "}", text)
    text = _UNION.sub(r"\\cup ", _EMPTY_GROUP.sub("", _RAISED_O.sub(r"^\\circ ", text)))
    text = _CIRCLED_RUN.sub(lambda run: ", ".join(_CIRCLED[sign] for sign in run.group() if sign in _CIRCLED), text)
    text = _HTML.sub(lambda tag: ("^{" if tag[1].lower() == "sup" else "_{") + tag[2] + "}", text)
    return _DOUBLED.sub(r"\\", text.translate(_TRANSLATE))


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


def _root(match: re.Match[str]) -> str:
    return rf"\sqrt{{{match[1]}}}" if match[1] else r"\sqrt"


def _braced(text: str) -> str:
    r"""Write the argument of `\sqrt(x)` and `2^(x)` in braces."""
    pieces, position, closings = list[str](), 0, list[bool]()
    for match in re.finditer(r"(\\sqrt\s?|\^\s?)\(|[()]", text):
        if match.group() == ")":
            is_argument = bool(closings) and closings.pop()
            sign = "}" if is_argument else ")"
        else:
            closings.append(bool(match[1]))
            sign = (match[1] or "") + ("{" if match[1] else "(")
        pieces += [text[position : match.start()], sign]
        position = match.end()
    # A bracket that is never closed is left to the grammar to refuse.
    return text if any(closings) else "".join(pieces) + text[position:]
