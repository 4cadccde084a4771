"""Decide whether a program passes its tests, on the trusted side: the program runs in the sandbox and hands back plain values.

A pass is proven by values compared here, test by test. How a program ends is never a proof of anything; that it failed is.

* The first test that fails decides, and names itself.
* A program that raises, exits, or returns what is not plain data is wrong, whatever was expected. For programs on standard input
  the output is the proof, so ending by `sys.exit(0)` after it is fine; any other exit code is wrong whatever was printed.
* Time, memory and output limits give `timeout`, and the reason says which. A program on standard input has its limit for each test,
  and `ALL_RUNS_S` for all of them; a function has one limit for all its tests.
* A text that Python cannot parse or compile is `unparsed`.
* Tests that cannot run, or never call the program, are our fault: `error`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, KeysView, ValuesView
from typing import Any, NamedTuple, Protocol, cast

from agon.program_tests import CaseTests, CodeTests, ProgramTests, StdinTests, has_assertions
from agon.records import Outcome
from agon.verifiers.assembly import NoProgramError, assemble
from agon.verifiers.assertions import shown
from agon.verifiers.objects import with_shared
from agon.verifiers.outputs import brief, difference
from agon.verifiers.sandbox.records import Limits, ProgramFailed, ProgramRun
from agon.verifiers.tester import Session, Tester

# One right but slow program with a hundred tests must not hold up all others. A single longer limit counts instead.
ALL_RUNS_S = 60.0
_MAX_REASON = 400
_AT_LOAD = "before the tests"
# Results of iterations and sums differ in their last digits between two right programs.
_SAME_FLOAT = 1e-5


class Finding(NamedTuple):
    """What became of a program, and why."""

    outcome: Outcome
    reason: str


class Sandbox(Protocol):
    """What the judge needs of the sandbox."""

    def run(self, program: str, stdin: bytes, limits: Limits) -> ProgramRun:
        """Run a whole program."""
        ...

    def load(self, program: str, limits: Limits) -> Session:
        """Run a program's top level, and leave it ready to be called. A context manager."""
        ...


def judge(code: str, tests: ProgramTests, sandbox: Sandbox, tester: Tester, limits: Limits) -> Finding:
    """Run a program against its tests; test code runs in `tester`.

    Raises:
        SandboxError: the sandbox itself failed.
    """
    try:
        match tests:
            case StdinTests():
                finding = _judge_stdin(assemble(code, prefix="", name=None), tests, sandbox, limits)
            case CaseTests():
                finding = _judge_cases(assemble(code, prefix=tests.prefix, name=tests.name), tests, sandbox, limits)
            case CodeTests():
                program = assemble(code, prefix=tests.prefix, name=tests.names[0])
                finding = _judge_code(program, tests, sandbox, tester, limits)
    except NoProgramError as error:
        finding = Finding("unparsed", f"the program cannot be compiled: {error}")
    return finding._replace(reason=finding.reason[:_MAX_REASON])


def _judge_stdin(program: str, tests: StdinTests, sandbox: Sandbox, limits: Limits) -> Finding:
    limit_s = min(limits.timeout_s, tests.time_limit_s or limits.timeout_s)
    used_s = 0.0
    for number, case in enumerate(tests.cases, 1):
        where = f"test {number} of {len(tests.cases)}"
        run = sandbox.run(program, case.stdin.encode(errors="surrogatepass"), limits._replace(timeout_s=limit_s))
        used_s += run.seconds
        failure = _ending(run, limits._replace(timeout_s=limit_s))
        if failure is not None:
            return failure._replace(reason=f"{where}: {failure.reason}")
        printed = run.stdout.decode(errors="replace")
        other = difference(case.stdout, printed, comparison=tests.comparison, tolerance=tests.tolerance)
        if other is not None:
            return Finding("wrong", f"{where}: {other}")
        if used_s > max(ALL_RUNS_S, limit_s) and number < len(tests.cases):
            return Finding("timeout", f"the first {number} of {len(tests.cases)} tests took {used_s:.0f} s together")
    return Finding("correct", f"all {len(tests.cases)} tests passed")


def _ending(run: ProgramRun, limits: Limits) -> Finding | None:
    """What the way a run ended decides; None if its output does."""
    last_line = next((line for line in reversed(run.stderr_tail.splitlines()) if line.strip()), "").strip()
    match run.ended:
        case "time" | "memory" | "output" as kind:
            return Finding("timeout", _limit_reason(kind, limits))
        case "signal":
            return Finding("wrong", f"ended by signal {-run.exit_code}")
        case "exit" if run.exit_code == 0:
            return None
        case "exit":
            return Finding(
                "wrong", f"ended with exit code {run.exit_code}" + (f" ({brief(last_line)})" if last_line else "")
            )


def _judge_cases(program: str, tests: CaseTests, sandbox: Sandbox, limits: Limits) -> Finding:
    number = 0
    try:
        with sandbox.load(program, limits) as session:
            for number, case in enumerate(tests.cases, 1):
                value = as_json(session.call(tests.name, case.args, {}).value)
                if not same_value(case.expected, value):
                    reason = f"test {number} of {len(tests.cases)}: expected {shown(case.expected)}, got {shown(value)}"
                    return Finding("wrong", reason)
    except ProgramFailed as failure:
        return _failed(failure, f"test {number} of {len(tests.cases)}" if number else _AT_LOAD, limits)
    return Finding("correct", f"all {len(tests.cases)} tests passed")


def _judge_code(program: str, tests: CodeTests, sandbox: Sandbox, tester: Tester, limits: Limits) -> Finding:
    if tests.shared:
        program = with_shared(program, tests.shared)
    try:
        with sandbox.load(program, limits) as session:
            end = tester.hold(tests, session)
    except ProgramFailed as failure:
        return _failed(failure, _AT_LOAD, limits)
    of_all = f" of {tests.num_tests}" if tests.num_tests else ""
    where = f"test {end.num_passed + 1}{of_all}"
    match end.kind:
        case "broken tests":
            return Finding("error", f"the problem's own tests cannot be run: {end.reason}")
        case "program failed":
            assert end.failure is not None, "a failed program leaves its failure"
            return _failed(end.failure, where, limits)
        case "not held":
            return Finding("wrong", f"{where}: {end.reason}")
        case "too slow":
            return Finding("timeout", f"{where}: {end.reason}")
        case "held":
            if tests.num_tests is not None and end.num_passed != tests.num_tests:
                return Finding("wrong", f"only {end.num_passed} of {tests.num_tests} tests were reached")
            if end.num_passed == 0 and has_assertions(tests):
                return Finding("wrong", "the tests ended before the first assertion")
            num_tests = end.num_passed or end.num_calls
            return Finding("correct", f"all {num_tests} tests passed")


def _failed(failure: ProgramFailed, where: str, limits: Limits) -> Finding:
    match failure.kind:
        case "time" | "memory" | "output" as kind:
            return Finding("timeout", f"{where}: {_limit_reason(kind, limits)}")
        case "exception" if failure.exception_name == "SyntaxError" and where == _AT_LOAD:
            return Finding("unparsed", f"the program cannot be compiled: {failure.message}")
        case "exception" if failure.exception_name == "MemoryError":
            return Finding("timeout", f"{where}: {_limit_reason('memory', limits)}")
        case "exception":
            return Finding("wrong", f"{where}: raised {failure.message}")
        case "exit":
            return Finding("wrong", f"{where}: the program ended itself ({failure.message})")
        case "no such name":
            return Finding("wrong", f"{where}: the program does not define what is called ({failure.message})")
        case "not plain":
            return Finding("wrong", f"{where}: what came back is not plain data ({failure.message})")


def _limit_reason(kind: str, limits: Limits) -> str:
    return {
        "time": f"took longer than {limits.timeout_s:g} s",
        "memory": f"needs more than {limits.memory_mb} MB",
        "output": f"printed or returned more than {limits.output_mb} MB",
    }[kind]


def as_json(value: Any) -> Any:
    """Return a plain value with every ordered sequence as a list, also what a generator yielded: JSON has no other."""
    match value:
        case list() | tuple() | deque() | KeysView() | ValuesView() | Iterator():
            return [as_json(item) for item in cast("Iterator[Any]", value)]
        case dict():
            return {key: as_json(item) for key, item in cast("dict[Any, Any]", value).items()}
        case _:
            return value


def same_value(wanted: Any, found: Any) -> bool:
    """Whether a value in JSON's types is the one wanted: true and false are no numbers, 2.0 is 2, floats agree to five digits."""
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(same_value, wanted, found))
    if isinstance(wanted, dict) and isinstance(found, dict):
        return wanted.keys() == found.keys() and all(same_value(value, found[key]) for key, value in wanted.items())
    if isinstance(wanted, bool) or isinstance(found, bool):
        return wanted is found
    if isinstance(wanted, int | float) and isinstance(found, int | float):
        return wanted == found or (float in (type(wanted), type(found)) and _are_near(wanted, found))
    return type(wanted) is type(found) and wanted == found


def _are_near(wanted: float, found: float) -> bool:
    try:
        return math.isclose(wanted, found, rel_tol=_SAME_FLOAT)
    except OverflowError:  # an integer beyond the floats
        return False
