from __future__ import annotations

import re

import pytest

from agon.prompts.marks import without_marks


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("plain > text", "plain > text"),
        ("a<s>b<end>c", "abc"),
        # What is left of the outer one spells it anew.
        ("<<s>s>", ""),
        ("<e<s>nd>x" * 2, "xx"),
        # Of two that end here the longer one is meant.
        ("a<end><s>", "a"),
        ("<s", "<s"),
    ],
)
def test_marks_and_those_that_are_spelt_anew_are_stripped(text, left):
    assert without_marks(text, re.compile(r"(?:<s>|<end>)\Z"), last_characters=">", longest=5) == left
