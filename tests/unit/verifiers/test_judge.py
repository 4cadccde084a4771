from __future__ import annotations

import pytest

from agon.program_tests import Case, CaseTests, CodeTests, StdinCase, StdinTests
from agon.verifiers.judge import ALL_RUNS_S, as_json, judge, same_value

DOUBLE = CodeTests(("assert f(1) == 2", "assert f(3) == 6"), ("f",), num_tests=2)
CASES = CaseTests("f", (Case((1,), [1, 2]), Case((2,), [2, 4])))
STDIN = StdinTests((StdinCase("1\n", "2\n"), StdinCase("3\n", "6\n")))
READ = "n = int(input())\n"


@pytest.fixture
def judged(make_sandbox, tester, limits):
    def run(code, tests, **options):
        sandbox = make_sandbox(**options)
        finding = judge(code, tests, sandbox, tester, limits)
        return finding.outcome, finding.reason

    return run


def test_a_program_passes_if_every_value_is_the_one_wanted(judged):
    assert judged("def f(x): return 2 * x", DOUBLE) == ("correct", "all 2 tests passed")
    assert judged("def f(x): return x, 2 * x", CASES) == ("correct", "all 2 tests passed")
    assert judged("def f(x):\n    yield x\n    yield 2 * x", CASES) == ("correct", "all 2 tests passed")
    assert judged(f"{READ}print(2 * n)", STDIN) == ("correct", "all 2 tests passed")


def test_the_first_failing_test_is_told(judged):
    assert judged("def f(x): return x + 1", DOUBLE) == ("wrong", "test 2 of 2: expected 6, got 4")
    assert judged("def f(x): return [x, 2]", CASES) == ("wrong", "test 2 of 2: expected [2, 4], got [2, 2]")
    assert judged(f"{READ}print(n + 1)", STDIN) == ("wrong", "test 2 of 2: line 1: expected '6', got '4'")


def test_tests_that_made_no_assertion_prove_nothing(judged):
    every = CodeTests(("for x in f(3):\n    assert x == 3",), ("f",))
    assert judged("def f(x): return []", every) == ("wrong", "the tests ended before the first assertion")
    assert judged("def f(x): return [3, 3]", every) == ("correct", "all 2 tests passed")


def test_test_code_that_raises_by_itself_counts_its_calls(judged):
    tests = CodeTests(("if f(1) != 2:\n    raise ValueError\nf(2)",), ("f",))
    assert judged("def f(x): return 2", tests) == ("correct", "all 2 tests passed")
    assert judged("def f(x): return 1", tests)[0] == "wrong"


def test_without_a_known_number_tests_are_numbered_alone(judged):
    assert judged("def f(x): return 0", CodeTests(DOUBLE.pieces, ("f",))) == ("wrong", "test 1: expected 2, got 0")


@pytest.mark.parametrize("expected", ["", None, 0])
def test_a_function_that_raises_is_wrong_whatever_was_expected(judged, expected):
    tests = CodeTests((f"assert f(1) == {expected!r}",), ("f",))
    outcome, reason = judged("def f(x): raise ValueError('no')", tests)
    assert (outcome, reason) == ("wrong", "test 1: raised ValueError: no")
    assert judged("def f(x): raise ValueError('no')", CaseTests("f", (Case((1,), expected),)))[0] == "wrong"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise ValueError('top')", "before the tests: raised ValueError: top"),
        ("import sys; sys.exit(0)", "before the tests: the program ended itself"),
        ("def f(x): raise SystemExit", "the program ended itself"),
        ("def g(x): return 2", "does not define"),
        ("def f(x): return object()", "not plain data"),
        ("def f(x):\n    y = []\n    for _ in range(200): y = [y]\n    return y", "not plain data"),
        ("class T:\n    __eq__ = lambda *_: True\ndef f(x): return T()", "not plain data"),
        ("class I(int):\n    __eq__ = lambda *_: True\ndef f(x): return I(0)", "not plain data"),
        ("def f(x): return float('nan')", "expected 2, got nan"),
    ],
)
def test_what_is_no_plain_value_in_time_is_wrong(judged, code, words):
    outcome, reason = judged(code, DOUBLE)
    assert outcome == "wrong"
    assert words in reason


def test_a_test_that_catches_exceptions_does_not_save_a_program_that_raises(judged):
    tests = CodeTests(("try:\n    f(1)\nexcept Exception:\n    pass\nassert True",), ("f",))
    assert judged("def f(x): raise ValueError", tests)[0] == "wrong"


@pytest.mark.parametrize(
    ("ended", "words"), [("time", "longer than 5 s"), ("memory", "more than 256 MB"), ("output", "more than 1 MB")]
)
def test_limits_end_in_a_timeout_that_says_which(judged, ended, words):
    for tests in (DOUBLE, CASES, STDIN):
        outcome, reason = judged("def f(x): return 2", tests, ended=ended)
        assert outcome == "timeout"
        assert words in reason
        assert reason.startswith("test 1 of 2: ")


def test_text_that_python_cannot_compile_is_unparsed(judged):
    assert judged("def f(:", DOUBLE)[0] == "unparsed"
    assert judged("def f(:", STDIN)[0] == "unparsed"
    outcome, reason = judged("return 1", DOUBLE)
    assert (outcome, reason[:33]) == ("unparsed", "the program cannot be compiled: S")


@pytest.mark.parametrize(
    ("tests", "words"),
    [
        (CodeTests(("assert f(1) == undefined",), ("f",)), "NameError"),
        (CodeTests(("assert True",), ("f",)), "never call the program"),
        (CodeTests(("assert g(1)",), ("f",)), "NameError"),
    ],
)
def test_tests_that_cannot_run_are_our_own_error(judged, tests, words):
    outcome, reason = judged("def f(x): return 2", tests)
    assert outcome == "error"
    assert words in reason


def test_a_pass_takes_every_test_that_was_expected(judged):
    tests = CodeTests(("if f(1):\n    assert True",), ("f",), num_tests=2)
    assert judged("def f(x): return 1", tests) == ("wrong", "only 1 of 2 tests were reached")


def test_a_program_on_standard_input_may_end_itself_after_its_output_but_not_with_an_error(judged):
    assert judged(f"{READ}print(2 * n)\nimport sys\nsys.exit(0)", STDIN)[0] == "correct"
    outcome, reason = judged(f"{READ}print(2 * n)\nimport sys\nsys.exit(3)", STDIN)
    assert (outcome, reason) == ("wrong", "test 1 of 2: ended with exit code 3")
    outcome, reason = judged(f"{READ}print(2 * n)\nraise ValueError('late')", STDIN)
    assert (outcome, reason) == ("wrong", "test 1 of 2: ended with exit code 1 ('ValueError: late')")


def test_leaving_before_the_output_is_wrong(judged):
    assert judged("import sys; sys.exit(0)", STDIN) == ("wrong", "test 1 of 2: line 1: expected '2', got the end")


def test_the_shorter_of_two_time_limits_counts_for_each_run(make_sandbox, tester, limits):
    for own_s, used_s in ((2.0, 2.0), (30.0, 5.0), (None, 5.0)):
        sandbox = make_sandbox()
        judge(f"{READ}print(2 * n)", StdinTests(STDIN.cases, time_limit_s=own_s), sandbox, tester, limits)
        assert [run.timeout_s for run in sandbox.runs] == [used_s, used_s]


def test_all_runs_together_have_a_limit_too(judged):
    many = StdinTests(tuple(StdinCase(f"{n}\n", f"{2 * n}\n") for n in range(4)), time_limit_s=1.0)
    outcome, reason = judged(f"{READ}print(2 * n)", many, seconds=ALL_RUNS_S / 2 + 0.5)
    assert outcome == "timeout"
    assert reason == "the first 2 of 4 tests took 61 s together"


def test_a_reason_is_bounded(judged):
    _, reason = judged(f"def f(x): raise ValueError('{'x' * 5_000}')", DOUBLE)
    assert len(reason) <= 400


@pytest.mark.parametrize(
    ("wanted", "found"), [([1, [2]], (1, [2])), (2, 2.0), (0.1, 0.1000001), ({"a": [1]}, {"a": (1,)}), (None, None)]
)
def test_values_that_json_cannot_tell_apart_are_the_same(wanted, found):
    assert same_value(wanted, as_json(found))


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (1, True),
        (False, 0),
        ([1], {1}),
        ([1, 2], [1]),
        ("1", 1),
        (0.1, 0.101),
        ({"a": 1}, {"a": 1, "b": 2}),
        (1e3, 10**400),
    ],
)
def test_values_of_another_type_or_size_differ(wanted, found):
    assert not same_value(wanted, as_json(found))
