from __future__ import annotations

import random
from collections import deque

import pytest

from agon.program_tests import CodeTests
from agon.verifiers import asking
from agon.verifiers.asking import ask, copy_back, has_more_values
from agon.verifiers.sandbox.plain import NotPlainError


def asked(pieces, answers, *, names=("f",), setup="", prefix="", after=None):
    """Ask with a program that gives the answers in turn; with `after` every call leaves its arguments so."""
    calls, left = [], iter(answers)

    def exchange(message):
        _, num_passed, name, args, kwargs = message
        calls.append((num_passed, name, args, kwargs))
        value = next(left)
        if isinstance(value, Exception):
            raise value
        return value, after, None

    result = ask(CodeTests(tuple(pieces), names, setup=setup, prefix=prefix), exchange)
    return result, calls


def test_names_under_test_call_the_program_and_everything_that_holds_is_held():
    result, calls = asked(["assert f(1, y=[2]) == 3", "assert f(4) == 5"], [3, 5])
    assert result == ("held", "", 2)
    assert calls == [(0, "f", (1,), {"y": [2]}), (1, "f", (4,), {})]


def test_the_first_assertion_that_does_not_hold_ends_it():
    result, calls = asked(["assert f(1) == 3", "assert f(4) == 5", "assert f(5) == 6"], [3, 4, 6])
    assert result == ("not held", "expected 5, got 4", 1)
    assert len(calls) == 2


@pytest.mark.parametrize("clause", ["except BaseException", "except Exception", "except"])
def test_a_test_cannot_catch_its_own_failure(clause):
    code = f"try:\n    assert f(1) == 3\n{clause}:\n    pass\nassert f(2) == 4"
    result, _ = asked([code], [0, 4])
    assert result == ("not held", "expected 3, got 0", 0)


def test_helpers_of_the_question_are_the_questions_own_and_its_unfinished_function_is_the_programs():
    prefix = "def encode(s):\n    return s[::-1]\n\ndef decode(s):\n    '''Undo it.'''\n"
    setup = "def check(candidate):\n    assert candidate(encode('ab')) == 'ab'\n"
    result, calls = asked(["check(decode)"], ["ab"], names=("decode",), setup=setup, prefix=prefix)
    assert result == ("held", "", 1)
    assert calls == [(0, "decode", ("ba",), {})]


def test_what_the_program_did_to_its_arguments_is_seen():
    result, _ = asked(["x = [3, 1]\nf(x)\nassert x == [1, 3]"], [None], after=([1, 3],))
    assert result == ("held", "", 1)


def test_a_result_that_the_tests_cannot_use_is_not_held():
    result, _ = asked(["assert len(f(1)) == 2"], [5])
    assert result.kind == "not held"
    assert "TypeError" in result.reason


@pytest.mark.parametrize(
    ("code", "word"),
    [
        ("import no_such_module\nassert f(1)", "no_such_module"),
        ("assert f(1) == undefined", "undefined"),
        ("raise ValueError('oops')", "oops"),
        ("assert f(object())", "argument"),
        ("def f(:", "SyntaxError"),
        ("assert f(1)\nimport no_such_module", "no_such_module"),
        ("assert f(1)\nfrom math import no_such_name", "no_such_name"),
        ("def check(c):\n    other = c(1)\n    assert other == undefined\ncheck(f)", "undefined"),
        ("def other():\n    undefined = 1\nassert f(1) == undefined", "undefined"),
        ("assert f(1)\nassert sum(undefined for _ in range(2))", "undefined"),
    ],
)
def test_test_code_that_fails_by_itself_is_broken(code, word):
    answers = [NotPlainError("a value of type object")] if "object()" in code else [1]
    result, _ = asked([code], answers)
    assert result.kind == "broken tests"
    assert word in result.reason


def test_a_later_piece_that_is_no_python_is_found_before_the_first_call():
    result, calls = asked(["assert f(1) == 3", "def f(:"], [0])
    assert (result.kind, calls) == ("broken tests", [])


@pytest.mark.parametrize(
    ("code", "answer", "name"),
    [
        ("for x in f(1):\n    last = x\nassert last == 3", [], "NameError"),
        (
            "def check(c):\n    for x in c(1):\n        last = x\n    assert last == 3\ncheck(f)",
            [],
            "UnboundLocalError",
        ),
        (
            "def check(c):\n    for x in c(1):\n        last = x\n    assert (lambda: last)() == 3\ncheck(f)",
            [],
            "NameError",
        ),
        ("def keep():\n    global kept\n    kept = 1\nif f(1):\n    keep()\nassert kept", 0, "NameError"),
        ("assert eval(f(1)) == 3", "1+", "SyntaxError"),
        ("assert eval(f(1)) == 3", "undefined", "NameError"),
        ("import importlib\nassert importlib.import_module(f(1))", "no_such_module", "ModuleNotFoundError"),
        ("import pickle\nassert pickle.loads(f(1))", b"cno_such_module\nname\n.", "ModuleNotFoundError"),
    ],
)
def test_what_a_returned_value_makes_of_the_test_code_is_no_fault_of_the_tests(code, answer, name):
    result, _ = asked([code], [answer])
    assert result.kind == "not held"
    assert name in result.reason


def test_a_result_too_large_to_cross_equals_only_what_is_as_large(monkeypatch):
    monkeypatch.setattr(asking, "MAX_VALUES", 9)
    wide = CodeTests(("assert f(1) == [[0] * 4] * 2",), ("f",))
    small = CodeTests(("assert f(1) == [[0] * 4]",), ("f",))
    assert ask(wide, lambda _: ()) == ("held", "", 1)
    assert ask(small, lambda _: ()) == ("not held", "expected [[0, 0, 0, 0]], got a value too large to be compared", 0)
    assert ask(CodeTests(("assert len(f(1)) == 12",), ("f",)), lambda _: ()).kind == "not held"


@pytest.mark.parametrize(
    ("value", "num"), [(5, 1), ([], 1), ([1, 2], 3), ([[1], (2, 3)], 6), ({"a": [1, 2]}, 5), ({(1, 2): {3}}, 6)]
)
def test_values_are_counted_with_what_is_inside_them(value, num):
    assert has_more_values(value, num - 1)
    assert not has_more_values(value, num)


def test_tests_may_draw_random_numbers():
    random.seed(5)
    result, calls = asked(["import random\nx = random.random()\nassert f(x) == 1"], [1])
    assert result.kind == "held"
    assert calls[0][2] == (random.Random(5).random(),)


@pytest.mark.parametrize(
    ("reason", "num_calls", "kind"),
    [
        ("nested deeper than 200", 1, "not held"),
        ("a value of type TooLarge", 1, "not held"),
        ("a value of type Node", 1, "broken tests"),
        ("nested deeper than 200", 0, "broken tests"),
    ],
)
def test_a_result_that_cannot_be_an_argument_is_the_programs_fault(reason, num_calls, kind):
    answers = iter([(1, (1,), {})] * num_calls)

    def exchange(_):
        for answer in answers:
            return answer
        raise NotPlainError(reason)

    tests = CodeTests(("x = f(1)\nassert f(x) == 1\nassert f(x) == 1",), ("f",))
    assert ask(tests, exchange).kind == kind


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([1, [2, 3]], [1, [3, 2]]),
        ([1, 2], [1]),
        ({"a": [1]}, {"a": [1, 2]}),
        ({"a": 1}, {"b": 1, "a": 1}),
        ({1, 2}, {3}),
        (bytearray(b"ab"), bytearray(b"c")),
        (deque([1, 2]), deque([2])),
        ([1, deque([1])], [1, deque([2, 3])]),
    ],
)
def test_an_argument_is_brought_up_to_date_in_place(before, after):
    inner = before[1] if isinstance(before, list) else None
    copy_back(before, after)
    assert before == after
    if isinstance(inner, list | deque):
        assert before[1] is inner


def test_an_argument_that_cannot_change_stays():
    before = (1, [2])
    copy_back(before, (1, [3]))
    assert before == (1, [2])
