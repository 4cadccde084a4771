"""Decide whether an answer is the gold text."""

from __future__ import annotations

import unicodedata

from agon.records import Verdict


def check_exact(gold: str, answer: str) -> Verdict:
    """Compare two texts, without regard to case, spacing, unicode form, surrounding quotes and a closing full stop."""
    if _spelled(gold) == _spelled(answer):
        return Verdict("correct", 1.0, "same text", answer, gold)
    return Verdict("wrong", 0.0, "other text", answer, gold)


def _spelled(text: str) -> str:
    words = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return words.removesuffix(".").strip("\"'` ")
