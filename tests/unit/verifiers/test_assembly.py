from __future__ import annotations

import pytest

from agon.code_parse import MAX_CODE_CHARS
from agon.verifiers.assembly import NoProgramError, assemble

PREFIX = 'from typing import List\n\ndef helper(x):\n    return x\n\ndef total(xs: List[int]):\n    """Add up."""\n'


def result(code):
    namespace = {}
    exec(assemble(code, prefix=PREFIX, name="total"), namespace)
    return namespace["total"]([1, 2])


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("    return sum(xs)\n", id="the body alone"),
        pytest.param(f"{PREFIX}    return sum(xs)\n", id="the whole again"),
        pytest.param(
            "def total(xs: List[int]):\n    return helper(sum(xs))", id="the function, with names of the question"
        ),
        pytest.param("    return more(xs)\n\ndef more(xs):\n    return sum(xs)\n", id="the body, then a helper"),
        pytest.param(
            "from __future__ import annotations\ndef total(xs: List[int]): return helper(sum(xs))",
            id="an import from __future__, which stays the first",
        ),
        pytest.param(
            '"""Add."""\nfrom __future__ import (\n    annotations,\n)\nx = "\u2028"\ndef total(xs): return helper(sum(xs))',
            id="an import from __future__ on many lines",
        ),
        pytest.param(
            "from __future__ import annotations; x = 1\ndef total(xs): return sum(xs)", id="what shares its line"
        ),
        pytest.param("\ufeffdef total(xs): return helper(sum(xs))", id="the mark of an encoding"),
        pytest.param("total = sum", id="a name bound to a function"),
    ],
)
def test_a_function_may_be_given_whole_or_from_where_the_question_ends(code):
    assert result(code) == 3


def test_a_program_is_parsed_and_never_compiled():
    code = "".join(f"{' ' * depth}try: pass\n{' ' * depth}finally:\n" for depth in range(60)) + " " * 60 + "x()\n"
    assert assemble(code, prefix="", name=None) == code  # compiling it would take 2 ** 60 copies of its last line


def test_without_a_prefix_the_code_is_the_program():
    assert assemble("print(1)", prefix="", name=None) == "print(1)"


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("def f(:", "invalid syntax"),
        ("x = '\ud800'", "not a text"),
        ("x = 1\x00", "null bytes"),
        ("-" * 40_000 + "1", "too deeply nested"),
        ("#" * (MAX_CODE_CHARS + 1), "50,001 characters"),
    ],
)
def test_what_python_cannot_compile_is_no_program(code, fault):
    with pytest.raises(NoProgramError, match=fault):
        assemble(code, prefix="", name=None)
