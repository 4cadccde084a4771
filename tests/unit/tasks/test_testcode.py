from __future__ import annotations

import pytest

from agon.tasks.testcode import count_tests, defined_names, suite_of, syntax_fault, taken_from_program

HELPER = "def assertion(out, exp):\n    if exp:\n        assert out == exp\n    else:\n        assert not out\n"


def test_names_that_the_code_does_not_bind_itself_are_taken_from_the_program():
    code = "import math\nassert math.isclose(area(2), 4) and set(listed(x for x in [1])) == {1}"
    assert taken_from_program(code, program="").names == ("area", "listed")


def test_a_builtin_is_taken_from_the_program_only_if_the_program_defines_it():
    assert taken_from_program("assert sum(2, 3) == 5", program="def sum(a, b): return a + b").names == ("sum",)
    assert taken_from_program("assert sum(f(2)) == 5", program="def f(a): return [a]").names == ("f",)


def test_what_the_program_only_imports_is_imported_for_the_tests():
    taken = taken_from_program("assert f(1) == sys.maxsize + g(pi)", program="import sys, os\nfrom math import pi\n")
    assert taken.names == ("f", "g")
    assert taken.imports == "import sys\nfrom math import pi\n"


def test_names_used_inside_a_function_of_the_tests_count_and_its_own_do_not():
    code = "def check(candidate):\n    y = candidate(1)\n    assert helper(y) == 1\ncheck(f)"
    assert set(taken_from_program(code, program="").names) == {"helper", "f"}


@pytest.mark.parametrize(
    ("setup", "piece", "count"),
    [
        ("", "assert f(1)\nassert f(2)", 2),
        ("def check(g):\n    assert g(1)\n    for i in range(3):\n        assert g(i)", "check(f)", 4),
        ("def check(g):\n    for i in range(2, 8):\n        assert g(i)", "check(f)", 6),
        (HELPER, "inputs = [1, 2, 3]\nfor i, x in enumerate(inputs):\n    assertion(f(x), x)", 3),
        (
            HELPER,
            "a, b = 1, 2\nxs = [1, 2]\nys = [3, 4]\nfor i, (x, y) in enumerate(zip(xs, ys)):\n    assertion(f(x), y)",
            2,
        ),
        ("", "for x in f():\n    assert x", None),
        ("", "if f():\n    assert g()", None),
        ("", "while f():\n    assert g()", None),
        ("", "xs = [1]\nxs = [1, 2]\nfor x in xs:\n    assert f(x)", None),
        ("def loop(g):\n    assert g(1)\n    loop(g)", "loop(f)", None),
        ("", "f(1)", None),
    ],
)
def test_assertions_are_counted_where_the_shape_of_the_code_decides(setup, piece, count):
    assert count_tests(setup, (piece,)) == count


def test_code_that_python_cannot_read_is_told_with_its_line():
    assert syntax_fault("x = 1\ndef f(:\n") == "invalid syntax (line 2)"
    assert syntax_fault("x = 1") is None
    assert defined_names("def f(:") == frozenset()
    assert defined_names("import a.b\ndef f(): pass\nx = y") == {"a", "f", "x"}


def test_a_pytest_file_becomes_plain_code_and_the_names_of_its_tests():
    code = (
        "import pytest\nimport math\nfrom node import Node\nif pytest.use_correct:\n    from right import f\n"
        "x = Node(1)\n\ndef helper(): pass\n\ndef test1():\n    assert f(x) == math.pi\n\ndef test2():\n    assert f(2)\n"
    )
    suite = suite_of(code)
    assert suite.functions == ("test1", "test2")
    assert suite.code.startswith("import math\nx = Node(1)\ndef helper():\n    pass\n")
    assert "pytest" not in suite.code
    assert "import Node" not in suite.code
