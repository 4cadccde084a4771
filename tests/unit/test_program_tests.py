from __future__ import annotations

import json

import pytest

from agon.program_tests import (
    Case,
    CaseTests,
    CodeTests,
    StdinCase,
    StdinTests,
    from_details,
    has_assertions,
    num_tests_of,
    to_details,
)

CODE = CodeTests(("assert f(1) == 2",), ("f",), setup="import math", prefix="def f(x):\n", num_tests=1)
CASES = CaseTests("f", (Case((1, [2]), {"a": None}), Case((), 3)))
STDIN = StdinTests((StdinCase("1\n", "2\n"),), "tokens", 1e-6, 2.5)


@pytest.mark.parametrize("tests", [CODE, CASES, STDIN, CodeTests(("assert f()",), ("f",)), StdinTests(STDIN.cases)])
def test_tests_come_back_from_json_as_they_were(tests):
    assert from_details(json.loads(json.dumps(to_details(tests)))) == tests


def test_details_hold_no_defaults():
    assert to_details(StdinTests(STDIN.cases)) == {"kind": "stdin", "cases": [["1\n", "2\n"]], "comparison": "lines"}


def test_the_number_of_tests_is_known_where_it_does_not_take_a_run():
    assert [num_tests_of(tests) for tests in (CODE, CASES, STDIN, CodeTests(("f()",), ("f",)))] == [1, 2, 1, None]


@pytest.mark.parametrize(
    ("tests", "fault"),
    [
        (CodeTests((), ("f",)), "no tests"),
        (CodeTests((" \n",), ("f",)), "no tests"),
        (CodeTests(("f(1)",), ("f",)), "asserts nothing"),
        (CodeTests(("f(1)  # assert",), ("f",), setup="x = 'raise'"), "asserts nothing"),
        (CodeTests(("check(f)",), ("f",), setup="def check(c):\n    c(1)"), "asserts nothing"),
        (CodeTests(("assert True",), ()), "call nothing"),
        (CaseTests("f", ()), "no tests"),
        (StdinTests(()), "no tests"),
        (StdinTests((StdinCase("1", " \n"),)), "expected output"),
        (StdinTests(STDIN.cases, "regex"), "'regex'"),
        (StdinTests(STDIN.cases, tolerance=float("inf")), "limit"),
        (StdinTests(STDIN.cases, time_limit_s=0.0), "limit"),
    ],
)
def test_tests_that_prove_nothing_are_refused(tests, fault):
    with pytest.raises(ValueError, match=fault):
        from_details(to_details(tests))


@pytest.mark.parametrize(
    "code",
    [
        "assert f(1)",
        "if f(1) != 2:\n    raise ValueError",
        "import numpy as np\nnp.testing.assert_allclose(f(1), 2)",
        "class T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(f(1), 2)",
        "assert f(",
    ],
)
def test_test_code_that_can_fail_a_program_is_taken(code):
    tests = CodeTests((code,), ("f",))
    assert from_details(to_details(tests)) == tests


def test_assertions_are_found_wherever_they_stand():
    assert has_assertions(CodeTests(("check(f)",), ("f",), setup="def check(c):\n    assert c(1)"))
    assert not has_assertions(CodeTests(("if f(1) != 2:\n    raise ValueError('assert')",), ("f",)))


@pytest.mark.parametrize("details", [{}, {"kind": "prose"}, {"kind": "code"}, {"kind": "stdin", "cases": [["1"]]}])
def test_what_are_no_tests_is_refused(details):
    with pytest.raises(ValueError, match="cannot be read"):
        from_details(details)
