"""Words and signs, where nobody knows the tokens: what endpoints are asked with, and what they do not count."""

from __future__ import annotations

import re

# Letters of scripts without spaces count one by one, other words by eight letters, numbers by three digits, all else by the sign.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]|\d{1,3}|[^\W\d_]{1,8}|\S")


def words_of(
    text: str, *, add_special_tokens: bool = False, return_offsets_mapping: bool = True
) -> dict[str, list[int] | list[tuple[int, int]]]:
    """Split a text into words and signs, in the shape of a tokenizer's answer; the ids say nothing."""
    offsets = [word.span() for word in _WORD.finditer(text)]
    return {"input_ids": [0] * len(offsets), "offset_mapping": offsets}


def num_words(text: str) -> int:
    """Count words and signs: about the tokens of English text, some fewer than those of formulas."""
    return sum(1 for _ in _WORD.finditer(text))
