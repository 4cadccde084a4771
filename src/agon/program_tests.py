"""The tests of a code problem, in three shapes, and their plain form in `Problem.details`.

* `CodeTests`: Python test code that calls names of the program and asserts (HumanEval, MBPP, EvalPlus).
* `CaseTests`: one function, and what it returns for given arguments.
* `StdinTests`: a whole program, what it reads and what it prints.

The test code is trusted and never runs in the program's process. Nothing here runs it.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

Comparison = Literal["lines", "tokens"]
COMPARISONS: tuple[Comparison, ...] = ("lines", "tokens")
_MAY_FAIL = re.compile(r"assert|raise", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CodeTests:
    """Test code in order: `setup` first, then each of `pieces`; every name in `names` calls the program.

    `prefix` is the part of the program that the question gives: a completion may repeat it, leave it out, or go on from it.
    `num_tests` is how many assertions (without any: calls of the program) a whole pass makes, None if only running the tests can
    tell. `shared` is the source of classes that both sides know, whose objects may cross by their attributes.
    """

    pieces: tuple[str, ...]
    names: tuple[str, ...]
    setup: str = ""
    prefix: str = ""
    num_tests: int | None = None
    shared: str = ""


class Case(NamedTuple):
    """Arguments, and the value wanted for them."""

    args: tuple[Any, ...]
    expected: Any


@dataclass(frozen=True, slots=True)
class CaseTests:
    """What the function `name` returns: JSON values, so that a tuple counts as a list and a generator as what it yields."""

    name: str
    cases: tuple[Case, ...]
    prefix: str = ""


class StdinCase(NamedTuple):
    """What a program reads, and what it should print."""

    stdin: str
    stdout: str


@dataclass(frozen=True, slots=True)
class StdinTests:
    """Runs of a whole program. `lines` compares line by line, `tokens` word by word; numbers then within `tolerance` if it is set.

    Units: `time_limit_s` of one run; None leaves it to the settings.
    """

    cases: tuple[StdinCase, ...]
    comparison: Comparison = "lines"
    tolerance: float | None = None
    time_limit_s: float | None = None


ProgramTests = CodeTests | CaseTests | StdinTests


def num_tests_of(tests: ProgramTests) -> int | None:
    """Return how many tests a whole pass makes, None if only running them can tell."""
    return tests.num_tests if isinstance(tests, CodeTests) else len(tests.cases)


def has_assertions(tests: CodeTests) -> bool:
    """Whether the test code has an `assert` anywhere, so that a run in which none is made proves nothing."""
    return any("assert" in _proofs(code) for code in (tests.setup, *tests.pieces))


def to_details(tests: ProgramTests) -> dict[str, Any]:
    """Turn tests into what `Problem.details` holds: plain JSON, with nothing in it that is only a default."""
    match tests:
        case CodeTests():
            details: dict[str, Any] = {"kind": "code", "pieces": list(tests.pieces), "names": list(tests.names)}
            optional: dict[str, Any] = {
                "setup": tests.setup,
                "prefix": tests.prefix,
                "num_tests": tests.num_tests,
                "shared": tests.shared,
            }
        case CaseTests():
            details = {
                "kind": "cases",
                "name": tests.name,
                "cases": [[list(case.args), case.expected] for case in tests.cases],
            }
            optional = {"prefix": tests.prefix}
        case StdinTests():
            details = {"kind": "stdin", "cases": [list(case) for case in tests.cases], "comparison": tests.comparison}
            optional = {"tolerance": tests.tolerance, "time_limit_s": tests.time_limit_s}
    return details | {name: value for name, value in optional.items() if value not in (None, "")}


def from_details(details: Mapping[str, Any]) -> ProgramTests:
    """Rebuild the tests that `to_details` wrote.

    Raises:
        ValueError: these are no tests, or none of them tests anything.
    """
    try:
        tests = _read(details)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the problem's tests cannot be read ({type(error).__name__}: {error})") from None
    fault = fault_of(tests)
    if fault:
        raise ValueError(fault)
    return tests


def fault_of(tests: ProgramTests) -> str | None:
    """Return why these tests prove nothing, None for tests that can be used."""
    match tests:
        case CodeTests():
            if not any(piece.strip() for piece in tests.pieces):
                return "no tests"
            if tests.num_tests is None and not any(_proofs(code) for code in (tests.setup, *tests.pieces)):
                return "no tests: the test code asserts nothing"
            return None if tests.names else "the tests call nothing that a program could define"
        case CaseTests():
            return None if tests.cases else "no tests"
        case StdinTests():
            if not any(case.stdout.strip() for case in tests.cases):
                return "no tests with an expected output"
            if tests.comparison not in COMPARISONS:
                return f"outputs are compared by {tests.comparison!r}; known: {', '.join(COMPARISONS)}"
            limits = [limit for limit in (tests.tolerance, tests.time_limit_s) if limit is not None]
            return (
                None if all(math.isfinite(limit) and limit > 0 for limit in limits) else "a limit that is not positive"
            )


@lru_cache(maxsize=256)
def _proofs(code: str) -> frozenset[str]:
    """By what test code can fail a program: `assert`, `raise`, or `call` for one that is named like `assert_allclose`."""
    if not _MAY_FAIL.search(code):
        return frozenset()
    try:
        nodes = list(ast.walk(ast.parse(code)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset({"raise"})  # running it will tell
    return frozenset(kind for node in nodes if (kind := _proof(node)))


def _proof(node: ast.AST) -> str:
    match node:
        case ast.Assert():
            return "assert"
        case ast.Raise():
            return "raise"
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name.lower().startswith("assert"):
            return "call"
        case _:
            return ""


def _read(details: Mapping[str, Any]) -> ProgramTests:
    match details["kind"]:
        case "code":
            return CodeTests(
                pieces=tuple(str(piece) for piece in details["pieces"]),
                names=tuple(str(name) for name in details["names"]),
                setup=str(details.get("setup", "")),
                prefix=str(details.get("prefix", "")),
                num_tests=details.get("num_tests"),
                shared=str(details.get("shared", "")),
            )
        case "cases":
            cases = tuple(Case(tuple(args), expected) for args, expected in details["cases"])
            return CaseTests(str(details["name"]), cases, str(details.get("prefix", "")))
        case "stdin":
            return StdinTests(
                cases=tuple(StdinCase(str(stdin), str(stdout)) for stdin, stdout in details["cases"]),
                comparison=details["comparison"],
                tolerance=details.get("tolerance"),
                time_limit_s=details.get("time_limit_s"),
            )
        case kind:
            raise ValueError(f"tests of the kind {kind!r} are not known")
