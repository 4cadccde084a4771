r"""The answers that name all real numbers or nothing, in words or in signs: one sign for each."""

from __future__ import annotations

import re

_ALL = re.compile(
    r"(?:the set of )?all (?:the )?reals?(?: numbers?)?|the (?:set of )?reals?(?: numbers?)|[a-z] ?(?:\\in|is in|∈) ?\\mathbb ?\{?r\}?"
    r"|\\mathbb ?\{?r\}?|\(- ?\\infty ?, ?\+?\\infty ?\)",
    re.IGNORECASE,
)
_NOTHING = re.compile(
    r"(?:the )?empty set|(?:there (?:is|are) )?no (?:real )?solutions?|\\(?:emptyset|varnothing)|\\\{ ?\\\}",
    re.IGNORECASE,
)


def whole_set(plain: str) -> str | None:
    r"""Return `\mathbb{R}` or `\emptyset` where a text in plain spelling says nothing else."""
    text = " ".join(plain.split())
    if len(text) > 60:
        return None
    if _ALL.fullmatch(text):
        return r"\mathbb{R}"
    return r"\emptyset" if _NOTHING.fullmatch(text) else None
