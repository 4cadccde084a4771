from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.code_text import code_blocks, code_spans, extract_code, has_program_form

FENCE = "```"
# Marks of the classes 230 and 220; a character that is two marks of the classes 129 and 130; a letter that is a mark of class 8.
ABOVE, BELOW, TWO_MARKS, VOICED = "\u0300", "\u0316", "\u0f73", "\uff9e"
PROGRAM = "def f():\n    return 1\n"
DOCUMENTED = f'def f():\n    """Return one.\n\n    {FENCE}\n    f()\n    {FENCE}\n    """\n    return 1\n'
PYTHON = f"{FENCE}python\n{PROGRAM}{FENCE}"


@pytest.mark.parametrize(
    ("text", "program"),
    [
        pytest.param(f"{PROGRAM}{FENCE}", PROGRAM, id="bare code and a closing fence"),
        pytest.param(f"{PROGRAM}{FENCE}\nThis returns one.", PROGRAM, id="bare code, a closing fence and words"),
        pytest.param(f"{FENCE}def f():\n    return 1\n{FENCE}", PROGRAM, id="code on the line of the fence"),
        pytest.param(f"{PYTHON}\nIt prints:\n{FENCE}text\nprint(1)\n{FENCE}", PROGRAM, id="a text block after it"),
        pytest.param(f"{FENCE}python\nx = 1\n{FENCE}\nBetter:\n{PYTHON}", PROGRAM, id="two python blocks: the last"),
        pytest.param(f"Here:\n{FENCE}python\n{PROGRAM}", PROGRAM, id="a fence that is never closed"),
        pytest.param(
            f"{FENCE}\nwords only\n{FENCE}\n{FENCE}\n{PROGRAM}{FENCE}", PROGRAM, id="no tag: the one that parses"
        ),
        pytest.param(
            f"{FENCE}\n{PROGRAM}{FENCE}\n{FENCE}\nwords only\n{FENCE}", PROGRAM, id="the last one that parses"
        ),
        pytest.param(f"{FENCE}Python3\n{PROGRAM}{FENCE}", PROGRAM, id="a tag in other case"),
        pytest.param(f"{FENCE}py title=a.py\n{PROGRAM}{FENCE}", PROGRAM, id="a tag with attributes"),
        pytest.param(f"~~~python\n{PROGRAM}~~~", PROGRAM, id="tildes"),
        pytest.param(f"1. so:\n   {FENCE}py\n   def f():\n       return 1\n   {FENCE}", PROGRAM, id="inside a list"),
        pytest.param(f"{FENCE}python print(1){FENCE}", "print(1)\n", id="a block on one line"),
        pytest.param(f"{FENCE}python\nthis is not ( python\n{FENCE}", "this is not ( python\n", id="a tag is believed"),
        pytest.param(PROGRAM, PROGRAM, id="bare code alone"),
        pytest.param(f"Here it is, from me:\n{PROGRAM}", PROGRAM, id="words, then bare code"),
        pytest.param(f"{FENCE}python\n\ufeff{PROGRAM}{FENCE}", PROGRAM, id="the mark of an encoding before the code"),
        pytest.param(f"\ufeff{PYTHON}", PROGRAM, id="the mark of an encoding before the fence"),
        pytest.param(f"\ufeff{PROGRAM}", PROGRAM, id="the mark of an encoding before bare code"),
        pytest.param(f"{FENCE}python\n{DOCUMENTED}{FENCE}", DOCUMENTED, id="a fence in a docstring"),
        pytest.param(f"{FENCE}\n{DOCUMENTED}{FENCE}\nDone.", DOCUMENTED, id="a fence in a docstring, no tag"),
        pytest.param(f'{FENCE}python\ndef f(:\n    """\n{FENCE}\n{PYTHON}', PROGRAM, id="a docstring that never ends"),
        pytest.param("    return 1\n", "    return 1\n", id="the body of a function"),
        pytest.param(
            f"\n    x = 1\n    return x\n{FENCE}\nDone.", "\n    x = 1\n    return x\n", id="a body and a closing fence"
        ),
        pytest.param("    some words", None, id="indented words"),
        pytest.param("Just add the two numbers.", None, id="words"),
        pytest.param("42", None, id="a number"),
        pytest.param(f"{FENCE}python\n\n{FENCE}", None, id="a blank block"),
        pytest.param(f"{FENCE}cpp\nint main() {{}}\n{FENCE}", None, id="another language"),
        pytest.param(f"{FENCE}\nno program\n{FENCE}", "no program\n", id="an untagged block that does not parse"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_one_rule_finds_the_program(text, program):
    assert extract_code(text) == program


def test_taking_a_program_out_of_itself_changes_nothing():
    program = extract_code(f"Words.\n{PYTHON}\nWords.")
    assert extract_code(program) == program


def test_only_a_closed_block_with_a_python_tag_has_the_form_that_was_asked_for():
    assert has_program_form(f"Words.\n{PYTHON}")
    assert not has_program_form(f"Words.\n{FENCE}python\n{PROGRAM}")
    assert not has_program_form(f"{FENCE}\n{PROGRAM}{FENCE}")
    assert not has_program_form(PROGRAM)
    assert not has_program_form(f"{FENCE}python\n{FENCE}")


def test_every_block_is_code_and_unfenced_code_reaches_to_the_end():
    text = f"a\n{PYTHON}\nb\n{FENCE}text\n1\n{FENCE}\nc"
    shown = [text[start:end] for start, end in code_spans(text)]
    assert shown == [PYTHON, f"{FENCE}text\n1\n{FENCE}"]
    bare = f"Words:\n{PROGRAM}{FENCE}\nmore"
    assert [bare[start:end] for start, end in code_spans(bare)] == [f"{PROGRAM}{FENCE}\nmore"]
    assert code_spans("only words") == []


def test_a_fence_shorter_than_the_opening_one_does_not_close_it():
    (block,) = code_blocks(f"{FENCE}`python\n{FENCE}\nx = 1\n{FENCE}`")
    assert block.code == f"{FENCE}\nx = 1\n"
    assert block.is_closed


@pytest.mark.parametrize(
    "text",
    [
        "-" * 40_000 + "1",
        "1" + "+1" * 20_000,
        "(" * 40_000,
        "lambda:" * 7_000 + "1",
        "if 1:\n pass\n" + "elif 1:\n pass\n" * 3_000,
        "a" + ".b" * 20_000,
        "print(1)\n" * 3_000,
        "\x00 = 1",
        "x = '\ud800'",
        pytest.param(f"a{ABOVE * 9_900}{BELOW * 9_900}() b", id="marks in the wrong order"),
        pytest.param("import a\n" * 8 + f"a{ABOVE * 9_900}{BELOW * 9_900}() b", id="the same from many starts"),
        pytest.param(f"x = a{TWO_MARKS * 9_900}", id="characters that decompose into marks in the wrong order"),
        pytest.param(f"x = \u30ab{(VOICED + BELOW) * 9_900}", id="letters that are marks"),
    ],
)
def test_what_python_cannot_parse_within_bounds_is_no_program_and_no_crash(text):
    assert extract_code(text) is None


@pytest.mark.parametrize(
    "example",
    [
        "print(f())",
        "assert f() == 2",
        "x = f()\nfor y in [x]:\n    print(y)",
        "import sys\nprint(f(), file=sys.stderr)",
        "from solution import f\nprint(f())",
        "if __name__ == '__main__':\n    print(list(map(lambda x: f(), [1])))",
    ],
)
@pytest.mark.parametrize("tag", ["python", ""])
def test_a_block_that_only_shows_how_the_program_is_used_does_not_replace_it(example, tag):
    text = f"{FENCE}{tag}\n{PROGRAM}{FENCE}\nFor example:\n{FENCE}{tag}\n{example}\n{FENCE}"
    assert extract_code(text) == PROGRAM
    assert extract_code(f"{text}\nOr:\n{FENCE}{tag}\nf()\n{FENCE}") == PROGRAM
    assert has_program_form(text) == bool(tag)


@pytest.mark.parametrize(
    "later",
    [
        "def f():\n    return 2\n",
        "def g():\n    return f()\n",
        "print(1)\n",
        "f = int\nprint(f())\n",
        "from math import f\nprint(f())\n",
        "print(other())\n",
        "not ( python\n",
    ],
)
def test_any_other_later_block_replaces_the_program(later):
    assert extract_code(f"{PYTHON}\nBetter:\n{FENCE}python\n{later}{FENCE}") == later


def test_a_block_that_uses_a_function_of_pythons_own_can_stand_alone():
    first = f"{FENCE}python\ninput = lambda: '1'\nprint(input())\n{FENCE}"
    assert extract_code(f"{first}\n{FENCE}python\nprint(input())\n{FENCE}") == "print(input())\n"


def test_a_use_before_the_program_stays_no_program():
    use = f"{FENCE}python\nprint(f())\n{FENCE}"
    assert extract_code(f"{use}\n{PYTHON}") == PROGRAM
    assert extract_code(use) == "print(f())\n"


@pytest.mark.parametrize(
    "unit",
    [
        f'{FENCE}python\n{"a," * 2_000}\n"""\n{FENCE}\n',
        f'{FENCE}python\n"""\n{FENCE}\n',
        f"{FENCE}python\n{'a,' * 9_000} = b\n{FENCE}\n",
        f"{FENCE}python\n'''\n{FENCE}\n\"\"\"\n{FENCE}\n",
        f"{FENCE}\nf()\n{FENCE}\n",
        f"{FENCE}py\n'''" + "\\" * 5_001,
    ],
)
def test_many_blocks_take_no_longer_than_their_text(unit):
    started = time.perf_counter()
    extract_code(f"{PYTHON}\n{unit * (200_000 // len(unit))}")
    assert time.perf_counter() - started < 20  # a second or less; a guard against hangs


@given(st.lists(st.sampled_from([FENCE, FENCE + "python", "~~~", "\n", "def f():\n    pass", " ", "x", "`", "\u2028"])))
def test_spans_are_in_order_and_never_overlap(parts):
    text = "".join(parts)
    spans = code_spans(text)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(first[1] <= second[0] for first, second in pairwise(spans))
