"""The whole way of a program: checking process, sandbox, test process. Isolated where the machine can, and without where it cannot."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import agon.verifiers.code as code_module
from agon.config import VerifierSettings
from agon.errors import VerifierError
from agon.program_tests import CodeTests, StdinCase, StdinTests, to_details
from agon.records import Problem
from agon.verifiers.code import CodeChecker
from agon.verifiers.registry import open_verifiers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="programs run on Linux only")

SETTINGS = VerifierSettings(
    workers=1, code_timeout_s=2.0, code_memory_mb=256, code_output_mb=1, unsafe_code_execution=True
)


def problem(tests, name="p"):
    return Problem(name, "Add.", "", "t", "code", details=to_details(tests))


ADD = problem(CodeTests(("assert add(1, 2) == 3", "assert add(2, 2) == 4"), ("add",), num_tests=2), "add")
SUM = problem(StdinTests((StdinCase("1 2\n", "3\n"), StdinCase("2 2\n", "4\n"))), "sum")
RIGHT = "def add(a, b): return a + b"


@pytest.fixture(scope="module")
def checker():
    made = CodeChecker(SETTINGS)
    yield made
    made.close()


def test_programs_get_their_verdicts_in_order(checker):
    jobs = [
        (ADD, RIGHT),
        (ADD, "def add(a, b): return 3"),
        (ADD, "def add("),
        (SUM, "print(sum(map(int, input().split())))"),
    ]
    verdicts = checker.check(jobs)
    assert [verdict.outcome for verdict in verdicts] == ["correct", "wrong", "unparsed", "correct"]
    assert [verdict.score for verdict in verdicts] == [1.0, 0.0, 0.0, 1.0]
    assert [verdict.answer for verdict in verdicts] == [program for _, program in jobs]
    assert verdicts[1].reason == "test 2 of 2: expected 4, got 3"
    assert {verdict.gold for verdict in verdicts} == {None}


@pytest.mark.parametrize(
    "program",
    [
        "import sys\nsys.exit(0)",
        "import os\ndef add(a, b): os._exit(0)",
        "raise SystemExit",
        "import os, sys\nsys.excepthook = lambda *_: os._exit(0)\ndef add(a, b): return 1 / 0",
        "import atexit, os\natexit.register(os._exit, 0)\ndef add(a, b): return 0",
        "class T:\n    __eq__ = lambda *_: True\ndef add(a, b): return T()",
        "class T(int):\n    __eq__ = lambda *_: True\ndef add(a, b): return T()",
        "import builtins\nbuiltins.AssertionError = ValueError\ndef add(a, b): return object()",
        "",
    ],
)
def test_a_program_that_does_not_compute_the_values_never_passes(checker, program):
    assert checker.check([(ADD, program or "pass")])[0].outcome == "wrong"


def test_endless_programs_end_in_time_and_their_neighbours_get_their_verdicts(checker):
    started = time.monotonic()
    verdicts = checker.check(
        [(ADD, "while True: pass"), (ADD, RIGHT), (SUM, "while True: print('x' * 1000)"), (ADD, RIGHT + "\n")]
    )
    assert [verdict.outcome for verdict in verdicts] == ["timeout", "correct", "timeout", "correct"]
    assert verdicts[0].reason == "before the tests: took longer than 2 s"
    assert verdicts[2].reason == "test 1 of 2: printed or returned more than 1 MB"
    assert time.monotonic() - started < 60


def test_memory_is_limited(checker):
    outcome = checker.check([(ADD, "x = bytearray(2 * 1024**3)\n" + RIGHT)])[0]
    assert (outcome.outcome, outcome.reason) == ("timeout", "before the tests: needs more than 256 MB")


def test_the_same_program_runs_once(checker, monkeypatch):
    asked = []
    pool = checker._pool.get()
    monkeypatch.setattr(
        pool, "ask", lambda messages, **more: asked.extend(messages) or type(pool).ask(pool, messages, **more)
    )
    verdicts = checker.check([(ADD, RIGHT)] * 3 + [(SUM, RIGHT)])
    assert [verdict.outcome for verdict in verdicts] == ["correct"] * 3 + ["wrong"]
    assert len(asked) == 2


def test_problems_with_one_question_and_other_tests_have_verdicts_of_their_own(checker):
    other = problem(CodeTests(("assert add(1, 2) == 2",), ("add",), num_tests=1), ADD.id)
    assert (other.id, other.question) == (ADD.id, ADD.question)
    verdicts = checker.check([(ADD, RIGHT), (other, RIGHT), (ADD, RIGHT)])
    assert [verdict.outcome for verdict in verdicts] == ["correct", "wrong", "correct"]


def test_many_threads_may_check_at_once(checker):
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda number: checker.check([(ADD, f"{RIGHT}  # {number}")])[0].outcome, range(16)))
    assert found == ["correct"] * 16


def test_a_problem_without_usable_tests_is_an_error(checker):
    verdict = checker.check([(Problem("x", "q", "", "t", "code"), RIGHT)])[0]
    assert (verdict.outcome, verdict.score) == ("error", 0.0)
    assert "tests cannot be read" in verdict.reason


def test_one_program_leaves_nothing_for_the_next(checker):
    spoil = "import builtins, sys\nbuiltins.sum = None\nsys.path.clear()\n" + RIGHT
    after = "def add(a, b): return sum([a, b])"
    assert [verdict.outcome for verdict in checker.check([(ADD, spoil), (ADD, after)])] == ["correct", "correct"]


def test_a_machine_without_a_sandbox_gives_errors_and_says_why(monkeypatch):
    script = (
        "import sys\nprint('{\"ready\": true}', flush=True)\n"
        'for line in sys.stdin: print(\'{"outcome": "no sandbox", "reason": "missing: everything"}\', flush=True)'
    )
    monkeypatch.setattr(code_module, "module_command", lambda *_: [sys.executable, "-c", script])
    checker = CodeChecker(SETTINGS)
    try:
        verdict = checker.check([(ADD, RIGHT)])[0]
    finally:
        checker.close()
    assert (verdict.outcome, verdict.reason) == ("error", "missing: everything")
    assert checker.refusal == "missing: everything"


def test_a_checking_process_that_does_not_answer_is_our_error(monkeypatch):
    script = "import sys, time\nprint('{\"ready\": true}', flush=True)\ntime.sleep(60)"
    monkeypatch.setattr(code_module, "module_command", lambda *_: [sys.executable, "-c", script])
    monkeypatch.setattr(CodeChecker, "_limit_s", lambda *_: 0.2)
    checker = CodeChecker(SETTINGS)
    try:
        assert checker.check([(ADD, RIGHT)])[0].outcome == "error"
    finally:
        checker.close()
    assert checker.refusal == ""


def test_checking_processes_that_cannot_start_stop_a_run_at_once(monkeypatch):
    monkeypatch.setattr(code_module, "module_command", lambda *_: [sys.executable, "-c", "raise SystemExit(3)"])
    verifiers = open_verifiers(SETTINGS)
    try:
        verdicts = verifiers.verify_programs([(ADD, f"{RIGHT}  # {number}") for number in range(4)])
        with pytest.raises(VerifierError, match=r"did not start \(exit status 3\); `agon doctor`") as caught:
            verifiers.check_error_share()
    finally:
        verifiers.close()
    assert {verdict.outcome for verdict in verdicts} == {"error"}
    assert "\n" not in str(caught.value)
