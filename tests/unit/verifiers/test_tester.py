from __future__ import annotations

import os
import signal
import time

import pytest

import agon.verifiers.tester as tester_module
from agon.program_tests import CodeTests
from agon.verifiers.sandbox.plain import MAX_DEPTH
from agon.verifiers.sandbox.records import CallResult, ProgramFailed, SandboxError

ADD = CodeTests(("assert f(1, 2) == 3",), ("f",))


class Program:
    """A loaded program that answers every call by one function."""

    def __init__(self, function):
        self.function = function

    def call(self, name, args, kwargs):
        return CallResult(self.function(*args, **kwargs), args, kwargs)


@pytest.fixture
def own_tester():
    made = tester_module.Tester(lambda: None)
    yield made
    made.close()


def is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_values_go_to_the_tests_and_back(own_tester):
    assert own_tester.hold(ADD, Program(lambda a, b: a + b))[:4] == ("held", "", 1, 1)
    end = own_tester.hold(ADD, Program(lambda a, b: a - b))
    assert (end.kind, end.reason, end.num_passed) == ("not held", "expected 3, got -1", 0)


def test_a_program_that_fails_ends_the_tests_with_its_failure(own_tester):
    def fail(*_):
        raise ProgramFailed("exception", "ValueError: no")

    end = own_tester.hold(ADD, Program(fail))
    assert end.kind == "program failed"
    assert end.failure is not None
    assert end.failure.message == "ValueError: no"
    assert own_tester.hold(ADD, Program(lambda a, b: a + b)).kind == "held"


def test_random_numbers_start_anew_for_every_program(own_tester):
    tests = CodeTests(("import random\nassert f(random.random())",), ("f",))
    seen = []
    for _ in range(2):
        own_tester.hold(tests, Program(lambda x: seen.append(x) or True))
    assert seen[0] == seen[1]


def test_a_process_that_dies_is_our_error_and_the_next_program_gets_another(own_tester):
    end = own_tester.hold(CodeTests(("assert f()\nimport os\nos._exit(3)",), ("f",)), Program(lambda: 1))
    assert (end.kind, end.reason) == ("broken tests", "their process ended")
    assert own_tester.hold(ADD, Program(lambda a, b: a + b)).kind == "held"


def test_test_code_that_does_not_end_is_ended(own_tester, monkeypatch):
    monkeypatch.setattr(tester_module, "TEST_SECONDS", 0.5)
    started = time.monotonic()
    assert (
        own_tester.hold(CodeTests(("while True: pass\nassert f()",), ("f",)), Program(lambda: 1)).kind == "broken tests"
    )
    assert own_tester.hold(CodeTests(("assert f()\nwhile True: pass",), ("f",)), Program(lambda: 1)).kind == "too slow"
    assert time.monotonic() - started < 20


def test_a_value_too_large_to_cross_is_told_to_the_tests(own_tester):
    def large(*_):
        raise ProgramFailed("not plain", "more than 1000000 values")

    end = own_tester.hold(ADD, Program(large))
    assert (end.kind, end.reason) == ("not held", "expected 3, got a value too large to be compared")
    tests = CodeTests(("assert f(1, 2) == [0] * 1_000_001", "assert f(1, 2) == [0]"), ("f",))
    assert own_tester.hold(tests, Program(large))[:4] == (
        "not held",
        "expected [0], got a value too large to be compared",
        1,
        2,
    )


def test_a_test_process_is_given_processor_time_and_a_longer_wall_clock(own_tester, monkeypatch):
    monkeypatch.setattr(tester_module, "WALL_SECONDS", 1.0)
    end = own_tester.hold(CodeTests(("assert f()\nimport time\ntime.sleep(30)",), ("f",)), Program(lambda: 1))
    assert end.kind == "too slow"


def test_a_closed_tester_leaves_no_process(own_tester):
    own_tester.start()
    process = own_tester._process
    assert is_alive(process)
    own_tester.close()
    assert not is_alive(process)


def test_a_process_that_cannot_be_confined_is_not_used():
    def refuse():
        raise SandboxError("no isolation here")

    with pytest.raises(SandboxError, match="no isolation here"):
        tester_module.Tester(refuse).start()


def test_a_process_that_fails_before_it_is_confined_says_why():
    def fail():
        raise PermissionError("no way in")

    with pytest.raises(SandboxError, match="PermissionError: no way in"):
        tester_module.Tester(fail).start()


def test_a_test_process_that_failed_here_is_not_asked_again(own_tester):
    def fail(*_):
        raise RecursionError

    with pytest.raises(RecursionError):
        own_tester.hold(ADD, Program(fail))
    assert own_tester.hold(ADD, Program(lambda a, b: a + b)).kind == "held"


def test_a_test_process_that_runs_out_of_time_before_it_is_answered_is_a_time_out(own_tester):
    def slow(*_):
        os.kill(own_tester._process, signal.SIGPROF)
        os.waitid(os.P_PID, own_tester._process, os.WEXITED | os.WNOWAIT)
        return "x" * 10_000_000

    end = own_tester.hold(CodeTests(("assert f()\nassert f()",), ("f",)), Program(slow))
    assert (end.kind, end.num_calls) == ("too slow", 1)
    assert own_tester.hold(ADD, Program(lambda a, b: a + b)).kind == "held"


def test_the_deepest_value_that_may_cross_reaches_the_tests(own_tester):
    value = 1
    for _ in range(MAX_DEPTH - 1):
        value = {1: value}
    end = own_tester.hold(CodeTests(("assert len(f()) == 1",), ("f",)), Program(lambda: value))
    assert end.kind == "held"
