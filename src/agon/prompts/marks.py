"""Marks that stand between turns, which no text of a problem or a rival may hold."""

from __future__ import annotations

import re
from collections.abc import Container


def without_marks(text: str, mark_at_end: re.Pattern[str], *, last_characters: Container[str], longest: int) -> str:
    """Strip a text of marks, and of those that what is left of it spells anew: in one pass, since whoever writes it may nest them a hundred
    thousand deep.

    `mark_at_end` finds a mark at the end of a text: one of at most `longest` characters, the last of them in `last_characters`.
    """
    left: list[str] = []
    for character in text:
        left.append(character)
        if character in last_characters and (mark := mark_at_end.search("".join(left[-longest:]))):
            del left[-len(mark[0]) :]
    return "".join(left)
