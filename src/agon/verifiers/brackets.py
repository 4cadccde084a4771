"""Brackets of intervals and rows of matrices in their usual spelling."""

from __future__ import annotations

import re

_ROW_GAP = re.compile(r"\\\\\s?\[\s?-?\d{0,4}(?:\.\d{1,4})?\s?(?:pt|em|ex|mm|cm)\s?\]|\\cr(?![A-Za-z])")
_BACKWARDS = re.compile(r"([\[\]])([^\[\](){}]{1,80}[,;][^\[\](){}]{1,80})([\[\]])")


def usual_rows(latex: str) -> str:
    r"""Return a matrix with `\\` alone between its rows (no `\cr`, no `\\[4pt]`)."""
    return _ROW_GAP.sub(r"\\\\", latex)


def usual_brackets(latex: str) -> str:
    r"""Return intervals with round brackets where a square one is turned away (`]5,\infty[` is `(5,\infty)`)."""
    if not re.match(r"\s*\]|.*\[\s*\Z", latex, re.DOTALL):
        return latex
    return _BACKWARDS.sub(
        lambda found: ("(" if found[1] == "]" else "[") + found[2] + (")" if found[3] == "[" else "]"), latex
    )
