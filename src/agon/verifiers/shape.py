r"""The outer shape of an answer: a value, a list, a tuple, an interval or a matrix, each part with the name it was given.

Told from the text alone, by brackets and separators outside every bracket; what a value means is not looked at here. A comma
inside brackets always separates (`(1,234)` is a pair), and a bracket that does not match makes the whole text one value.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from agon.numerals import denies
from agon.verifiers.brackets import usual_brackets, usual_rows

Kind = Literal["value", "list", "tuple", "interval", "matrix"]

# More parts than any answer has: a longer list is compared as one value, and that fails.
MAX_PARTS = 60
_MAX_DEPTH = 6


class Shape(NamedTuple):
    """One answer or a part of it.

    `text` is the LaTeX without the name. `edges` are the brackets of an interval or a set, `glue` the word or sign that joins a list.
    """

    kind: Kind
    text: str
    parts: tuple[Shape, ...] = ()
    name: str = ""
    edges: str = ""
    glue: str = ""


_TOKEN = re.compile(
    r"\\begin\s?\{[a-z]{1,20}\*?\}|\\end\s?\{[a-z]{1,20}\*?\}|\\(?:text|mathrm|mbox)\s?\{[\s,]*(?P<word>and|or)[\s,]*\}"
    r"|\\langle|\\rangle|\\[{}]|\\\\|\\[A-Za-z]+|(?P<plain>(?<![A-Za-z])(?:and|or)(?![A-Za-z]))|[()\[\]{},;&=<>]"
)
_OPENINGS, _CLOSINGS = ("(", "[", "{", r"\{", r"\langle"), (")", "]", "}", r"\}", r"\rangle")
_INNER_AND = re.compile(r"(\\(?:text|mathrm|mbox)\s?\{)([^{}]{0,80}?)\s\b(and|or)\b\s?([^{}]{0,80})\}")
_NAME = re.compile(
    r"(?:\\angle\s?|\\)?[A-Za-z]+'{0,2}(?:_(?:\{[^{}]{1,20}\}|\w))?(?:\s?\(\s?[^()=]{1,20}\))?"
    r"|\\(?:text|mathrm)\s?\{[^{}]{1,60}\}(?:_(?:\{[^{}]{1,20}\}|\w))?|\(\s?[^()=,]{1,60}(?:\([^()=]{1,20}\)[^()=,]{0,20}){0,4},[^()=]{1,60}(?:\([^()=]{1,20}\)[^()=]{0,20}){0,4}\)"
    r"|[A-Za-z][A-Za-z ]{0,60}"
)
# `\ln x = 5` and `-x = 5` are conditions on x: what has the value 5 is no x.
_OPERATION = re.compile(
    r"\\?(?:ln|log|lg|exp|sqrt|cbrt|abs|sin|cos|tan|cot|sec|csc|arc[a-z]+|sinh|cosh|tanh|floor|ceil|neg|sgn)(?![A-Za-z])"
)
_NUMERIC = re.compile(r"\\(?:[dt]?frac|sqrt|cdot|times|div|pi|binom|left|right|circ|pm|text\s?\{[^{}]*\})(?![A-Za-z])")
_DERIVED = re.compile(r"[a-z]'{1,2}(?!'|\s?\()")
# What is named by a formula: at least two names joined, or one in marks that no number has (`|AB|`, `[ABC]`, `\cos A`).
_NAMED_PART = (
    r"\\(?:angle|triangle|vec|overline|widehat|hat|bar|mathbf|text|mathrm|operatorname|mathbb|mathcal)(?![A-Za-z])\s?"
)
_MARKED = re.compile(
    rf"m?(?:{_NAMED_PART})+\s?\{{?[A-Za-z ]{{1,60}}\}}?|\[[A-Z]{{2,8}}\]|[A-Z]\s?\[[A-Z]\]|\|[A-Z]{{2}}\||"
    rf"(?:\\\||\|)\s?{_NAMED_PART}\{{?[A-Za-z]+\}}?\s?(?:\\\||\|)|"
    r"\\(?:sin|cos|tan|cot|sec|csc)\s?\(?(?:\\angle\s?)?(?:[A-Z]{1,3}|\\(?:theta|alpha|beta|gamma|phi))\)?"
)
_JOINED = re.compile(
    r"(?:[A-Za-z\s(){}+\-*/|:,']|\\(?:[dt]?frac|cdot|times|gcd|max|min|det|dim|deg|alpha|beta|gamma|theta)(?![A-Za-z]))+"
)
_LETTER = re.compile(r"[A-Za-z]")
_MEMBER = re.compile(r"\s?[A-Za-z]\s?\\in(?![A-Za-z])\s?")
_LABEL = re.compile(r"\s?((?:\\text\s?\{)?[A-Za-z][A-Za-z0-9 ]{1,40}:?\}?):\s?(?=\S)")
_REMARK = re.compile(
    r"[\s,]*(?:\\q?quad|\\[,; ]|\\text\s?\{[\s,(]{0,4}|\(\s?)?\s?\b(?:for (?:all|any|every|each|some)|where)\b.*",
    re.DOTALL,
)
_OTHER_CASE = re.compile(r"\b(?:otherwise|else|elsewhere|except|unless|if|but|or)\b")
_TRANSPOSED = re.compile(
    r"(.*[)\]}])\s?\^\s?\{?\s?(?:\\(?:top|intercal|mathrm\s?\{\s?T\s?\}|mathsf\s?\{\s?T\s?\})|T)\s?\}?", re.DOTALL
)
# Between bars it is a determinant: a value.
_MATRIX = re.compile(r"\\begin\s?\{([pbB]?matrix|array)\}(?:\{[lcr|]{1,20}\})?(.*)\\end\s?\{\1\}", re.DOTALL)
_RELATION = re.compile(r"[<>]|\\(?:[lg](?:eq?|t|eqslant)|neq?)(?![A-Za-z])")
_SEPARATORS = (",", ";", "and", "or")
_EDGES = {"(": ")", "[": "]"}


def read_shape(latex: str, *, depth: int = 0) -> Shape:
    """Return the shape of an answer in `latex_spelling`."""
    text = usual_brackets(latex.strip())
    if depth < _MAX_DEPTH:
        parts, glue = _split(_INNER_AND.sub(_apart, text))
        if 1 < len(parts) <= MAX_PARTS:
            if glue == ";":
                parts = [f"({part})" if len(_split(part)[0]) > 1 else part for part in parts]
            return Shape("list", text, tuple(read_shape(part, depth=depth + 1) for part in parts), glue=glue)
    name, text = _split_name(text)
    return _bracketed(text, depth)._replace(name=name) if depth < _MAX_DEPTH else Shape("value", text, name=name)


def _apart(text: re.Match[str]) -> str:
    """Two marked texts for one with `and` between words (but the mere word stays)."""
    return f"{text[1]}{text[2]}}}, {text[1]}{text[4]}}}" if (text[2] + text[4]).strip(" ,") else text.group()


def without_remarks(latex: str) -> str:
    """Return a formula, or each of a list, without a closing clause that says where it holds (`for all x`, `where …`)."""
    parts, _ = _split(latex)
    if len(parts) > 1 and all(has_remark(part) for part in parts):
        return ", ".join(map(_without_remark, parts))
    return _without_remark(latex)


def has_remark(latex: str) -> bool:
    """Tell whether a formula ends with such a clause."""
    return _without_remark(latex) != latex


def _without_remark(latex: str) -> str:
    match = _REMARK.search(latex)
    is_remark = match is not None and match.start() and not _OTHER_CASE.search(match.group())
    return latex[: match.start()].strip() if match and is_remark else latex


def is_equation(text: str) -> bool:
    """Tell whether a text has an equals sign outside brackets, and no other relation."""
    return equation_sides(text) is not None


def stated_value(equation: str) -> str | None:
    """Return the last side of an equation that states a value (`12+25 = 37`, `AB = 5`, `a+b = 256+37 = 293`).

    None if it is a condition on something else: its first side mixes letters and digits (`2x = 4`), is made of one letter
    (`-x = 4`, `x^2 = 4`), or letters come to zero (`ax+b = 0`).
    """
    sides = equation_sides(equation)
    if sides is None:
        return None
    if denies(sides[0]):
        return None
    if not re.search(r"[A-Za-z]", _NUMERIC.sub("", sides[0])):
        return sides[-1]
    if _MARKED.fullmatch(sides[0]):
        return sides[-1]
    first = re.sub(r"_\{?\w+\}?|\^(?:\d|\{\d{1,3}\})", "", sides[0])
    names = set(re.findall(r"(?:\\[A-Za-z]+|[A-Za-z])(?:_\{?\w+\}?)?", _NUMERIC.sub("", sides[0])))
    is_named = len(names) > 1 and not first.lstrip().startswith("-") and _JOINED.fullmatch(first)
    is_condition = not is_named or _OPERATION.match(first) or (sides[-1] == "0" and len(sides) == 2)
    return None if is_condition else sides[-1]


def equation_sides(text: str) -> list[str] | None:
    """Return what stands around the equals signs outside brackets, None where there is none or another relation."""
    signs = [token for token, depth in _tokens(text) if depth == 0 and token.group() in "=<>"]
    if not signs or any(sign.group() != "=" or text[sign.start() - 1 : sign.start()] == "!" for sign in signs):
        return None
    starts, ends = [0, *(sign.end() for sign in signs)], [*(sign.start() for sign in signs), len(text)]
    return [text[start:end].strip() for start, end in zip(starts, ends, strict=True)]


def _tokens(text: str) -> list[tuple[re.Match[str], int]]:
    """Tokens with their bracket depth. Where brackets do not match no token is at depth 0."""
    tokens: list[tuple[re.Match[str], int]] = []
    depth = 0
    for token in _TOKEN.finditer(text):
        sign = token.group()
        is_closing = sign in _CLOSINGS or sign.startswith(r"\end")
        depth -= is_closing
        if depth < 0:
            return []
        tokens.append((token, depth))
        depth += sign in _OPENINGS or sign.startswith(r"\begin")
    return tokens if depth == 0 else []


def _split(text: str) -> tuple[list[str], str]:
    """The parts between separators outside every bracket, and the word that joins them (`;` before a word before `,`)."""
    parts, position = list[str](), 0
    tokens = [(token, token["word"] or token["plain"] or token.group()) for token, depth in _tokens(text) if depth == 0]
    tokens = [(token, sign) for token, sign in tokens if sign in _SEPARATORS]
    signs = {sign for _, sign in tokens}
    glue = next((sign for sign in (";", "or", "and") if sign in signs), ",")
    for token, sign in tokens:
        # with semicolons a comma joins what belongs together: p=5, q=2; p=7, q=2
        if glue != ";" or sign != ",":
            parts.append(text[position : token.start()])
            position = token.end()
    parts.append(text[position:])
    return [part.strip() for part in parts if part.strip()], glue


def _split_name(text: str) -> tuple[str, str]:
    r"""The name that an answer gives to its value (`x = 5`, `f(x) = …`, `x \in …`, `Maximum: 5`), or none."""
    if match := _MEMBER.match(text):
        return "", text[match.end() :]
    if (match := _LABEL.match(text)) and not denies(match[1]):
        return match[1].strip(), text[match.end() :]
    sides = equation_sides(text)
    if sides is None or not all(sides):
        return "", text
    if (
        _NAME.fullmatch(sides[0])
        and not _OPERATION.match(sides[0])
        and not denies(sides[0])
        and not _DERIVED.match(sides[0])
    ):
        return sides[0], sides[-1]
    # `2 = x` is `x = 2`
    is_turned = len(sides) == 2 and _LETTER.fullmatch(sides[1]) and not re.search(r"[A-Za-z]", sides[0])
    return (sides[1], sides[0]) if is_turned else ("", text)


def _transposed(shape: Shape, text: str) -> Shape:
    """The transpose of a tuple or a matrix that is written out; a value for anything else."""
    if shape.kind in ("tuple", "interval") or (shape.kind == "list" and shape.text.startswith("[")):
        return Shape("tuple", text, shape.parts)
    if shape.kind != "matrix" or len({len(row.parts) for row in shape.parts}) != 1:
        return Shape("value", text)
    columns = zip(*(row.parts for row in shape.parts), strict=True)
    return Shape("matrix", text, tuple(Shape("tuple", "", column) for column in columns))


def _bracketed(text: str, depth: int) -> Shape:
    if turned := _TRANSPOSED.fullmatch(text):
        return _transposed(_bracketed(turned[1].strip(), depth), text)
    if matrix := _MATRIX.fullmatch(text):
        rows = [row for row in usual_rows(matrix[2]).split(r"\\") if row.strip()]
        cells = [[read_shape(cell, depth=depth + 1) for cell in row.split("&")] for row in rows]
        if rows and len(rows) * len(cells[0]) <= MAX_PARTS and r"\begin" not in matrix[2]:
            return Shape("matrix", text, tuple(Shape("tuple", "", tuple(row)) for row in cells))
    tokens = _tokens(text)
    if not tokens or tokens[0][0].start() or sum(level == 0 for _, level in tokens) != 2:
        return Shape("value", text)
    opening, closing = tokens[0][0], tokens[-1][0]
    if closing.end() != len(text) or opening.group() not in _OPENINGS:
        return Shape("value", text)
    inner = text[opening.end() : closing.start()].strip()
    parts, _ = _split(inner)
    if not 1 <= len(parts) <= MAX_PARTS:
        return Shape("value", text)
    if r"\choose" in inner or re.fullmatch(r"\\emptyset|\\varnothing", inner):
        return Shape("value", text)
    is_set, is_angle = opening.group() in ("{", r"\{"), opening.group() == r"\langle"
    if len(parts) == 1:
        return read_shape(inner, depth=depth + 1) if is_set or opening.group() == "[" else Shape("value", text)
    shapes = tuple(read_shape(part, depth=depth + 1) for part in parts)
    edges = opening.group() + closing.group()
    if is_set:
        return Shape("list", text, shapes, edges=edges, glue=",")
    if is_angle or edges == "()":
        return Shape("tuple", text, shapes)
    if len(parts) == 2 and edges[0] in _EDGES and edges[-1] in _EDGES.values():
        return Shape("interval", text, shapes, edges=edges)
    return Shape("list", text, shapes, glue=",") if edges == "[]" else Shape("value", text)


def are_joined_otherwise(wanted: Shape, found: Shape) -> bool:
    """Tell whether two lists of relations, or of values of several names, say "and" (or a comma) against "or"."""
    if wanted.kind != "list" or found.kind != "list" or {wanted.glue, found.glue} not in ({"or", "and"}, {"or", ","}):
        return False
    if len(wanted.parts) != len(found.parts):
        return False
    return any(
        len({part.name for part in shape.parts} - {""}) > 1 or any(_RELATION.search(part.text) for part in shape.parts)
        for shape in (wanted, found)
    )
