from __future__ import annotations

import unicodedata

import pytest

from agon.code_parse import MAX_MARKS, is_program, syntax_fault

# Marks of the classes 230 and 220; a character that is two marks of the classes 129 and 130; a letter that is a mark of class 8.
ABOVE, BELOW, TWO_MARKS, VOICED = "\u0300", "\u0316", "\u0f73", "\uff9e"


@pytest.mark.parametrize("text", ["hello", "3 + 4", "answer: done", '{"a": 1}', "ls -la", "name: f()  # no\nx ="])
def test_what_does_nothing_is_no_program(text):
    assert not is_program(text)


@pytest.mark.parametrize("text", ["print(1)", "x = 1", "def f(): pass", "import math"])
def test_what_does_something_is_a_program(text):
    assert is_program(text)


@pytest.mark.parametrize("mark", [ABOVE, BELOW, TWO_MARKS, VOICED])
def test_more_marks_in_a_row_than_any_language_has_are_refused_before_python_sees_them(mark):
    num_each = len(unicodedata.normalize("NFKD", mark))
    most = MAX_MARKS // num_each
    assert syntax_fault(f"x = 'a{mark * most}'") is None
    fault = syntax_fault(f"x = 'a{mark * (most + 1)}'")
    assert fault == f"{(most + 1) * num_each} combining marks in a row, more than 30 are not read"


def test_marks_are_counted_across_characters_that_only_decompose_into_them():
    assert syntax_fault(f"x = '{(VOICED + BELOW) * 15}'") is None
    assert "31 combining marks" in str(syntax_fault(f"x = '{(VOICED + BELOW) * 15}{ABOVE}'"))
    # the letter with a grave ends in a mark of its own, and the run starts anew behind it
    assert "31 combining marks" in str(syntax_fault(f"x = '\u00e0{ABOVE * 30}'"))
    assert syntax_fault(f"x = '{ABOVE * 30}\u00e0{ABOVE * 29}'") is None


def test_names_and_texts_in_any_script_are_read():
    assert is_program("größe = 1")
    assert is_program(f"# {'例' * 2_000}\nprint('e{ABOVE}{BELOW}')")
