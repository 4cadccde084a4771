"""Rows of code data sets turned into problems, by the columns that they have.

| shape | columns |
|---|---|
| HumanEval, EvalPlus | `prompt`, `entry_point`, `test` with a function `check`, `canonical_solution` |
| MBPP, full and sanitized | `prompt` or `text`, `test_list`, `test_imports` or `test_setup_code`, `code` or `canonical_solution` |
| a test script (MBPP of EvalPlus) | `prompt`, `test`, `canonical_solution`; `test_list` for the example in the question |
| cases | `entry_point`, `tests` of `args` and `expected`; `prompt`, or `buggy` for a repair; `fixed` or `canonical_solution` |
| a pytest file | `entry_point`, `pytest` with functions `test…`; `node_py`: classes that tests and program share |
| programs on standard input | `prompt` or `description`; `tests` of `stdin` and `stdout` (or `input` and `output`), or `public_tests`, `private_tests` and `generated_tests`, or `input_output` of APPS and TACO; `time_limit_s` or `time_limit`; `checker` |

A question shows the first test of an MBPP row, since its text does not name the function; the others stay hidden, so that writing the
known results down earns nothing. Of very many tests on standard input the first are used, up to `MAX_CASES` and `MAX_CASE_CHARS`:
they are run one by one, and travel with every stored match.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agon.program_tests import Case, CaseTests, CodeTests, ProgramTests, StdinCase, StdinTests, fault_of, to_details
from agon.records import Problem
from agon.tasks.named import ANSWER_COLUMNS, LEVEL_COLUMNS
from agon.tasks.rows import UnusableRow, content_id
from agon.tasks.table import shown
from agon.tasks.testcode import count_tests, defined_names, suite_of, syntax_fault, taken_from_program

MAX_CASES = 100
MAX_CASE_CHARS = 50_000

TEXT_COLUMNS = ("prompt", "text", "description", "question")
PROGRAM_COLUMNS = ("canonical_solution", "code", "fixed", "solution")
_STDIN_COLUMNS = ("tests", "public_tests", "private_tests", "generated_tests", "input_output")
CODE_COLUMNS = (
    *TEXT_COLUMNS, *PROGRAM_COLUMNS, *LEVEL_COLUMNS, "entry_point", "test", "test_call", "test_list", "test_imports",
    "test_setup_code", *_STDIN_COLUMNS, "time_limit", "time_limit_s", "checker", "input_file",
    "buggy", "pytest", "node_py",
)  # fmt: skip

# A table with one of these holds programs, whatever else it has.
_SURE_COLUMNS = ("test_list", "public_tests", "private_tests", "generated_tests", "input_output")
_TEST_COLUMNS = ("test", "tests", "pytest")
# A solution is a program here.
_ANSWER_COLUMNS = frozenset(ANSWER_COLUMNS) - frozenset(PROGRAM_COLUMNS)

_STDIN_TASK = "Write a Python program that reads standard input and writes its answer to standard output."
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_TOLERANCE = re.compile(r"float:(\d+(?:\.\d+)?(?:e-?\d+)?)", re.ASCII | re.IGNORECASE)
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def is_code_shape(columns: Collection[str]) -> bool:
    """Tell whether a table with these columns holds code problems. Tests beside an answer and without a function's name prove nothing."""
    if not any(name in columns for name in (*TEXT_COLUMNS, "buggy")):
        return False
    if any(name in columns for name in _SURE_COLUMNS):
        return True
    has_tests = any(name in columns for name in _TEST_COLUMNS)
    return has_tests and ("entry_point" in columns or _ANSWER_COLUMNS.isdisjoint(columns))


def program_problem(row: Mapping[str, Any], *, task: str) -> Problem:
    """Turn the values of a row into a code problem. Its gold is the whole canonical program, or empty if there is none.

    Raises:
        UnusableRow: no known shape, no text, or no test that could fail a program.
    """
    if isinstance(row.get("test"), str) and row.get("entry_point"):
        question, gold, tests = _function(row)
    elif _has_text(row, "test") or row.get("test_list") is not None:
        question, gold, tests = _asserts(row)
    elif row.get("entry_point"):
        question, gold, tests = _called(row)
    else:
        question, gold, tests = _stdin(row)
    fault = fault_of(tests)
    if fault:
        raise UnusableRow(fault)
    for text in (question, gold, json.dumps(to_details(tests), ensure_ascii=False)):
        if half := _SURROGATE.search(text):
            raise UnusableRow(f"the row holds half a surrogate pair (U+{ord(half.group()):04X})")
    return Problem(
        id=content_id(question),
        question=question,
        gold=gold,
        task=task,
        verifier="code",
        level=_level(row),
        details=to_details(tests),
    )


def _function(row: Mapping[str, Any]) -> tuple[str, str, CodeTests]:
    prompt, name, test = _text(row, "prompt"), _name(row), _text(row, "test")
    call = row["test_call"] if _has_text(row, "test_call") else f"check({name})"
    _require_syntax(f"{prompt}\n{test}\n{call}", "'test'")
    body = _program(row)
    whole = f"{prompt}{body}"
    gold = whole if body and name in defined_names(whole) else body
    tests = CodeTests((call,), (name,), setup=test, prefix=prompt, num_tests=count_tests(f"{prompt}\n{test}", (call,)))
    return f"Complete this Python function.\n\n```python\n{prompt.strip()}\n```", gold, tests


def _asserts(row: Mapping[str, Any]) -> tuple[str, str, CodeTests]:
    text, gold = _text(row, *TEXT_COLUMNS), _program(row)
    listed = [str(test) for test in _list(row, "test_list") if str(test).strip()]
    pieces = (_text(row, "test"),) if _has_text(row, "test") else tuple(listed)
    imports = [str(line) for line in _list(row, "test_imports")]
    given = "\n".join([*imports, str(row.get("test_setup_code") or "")]).strip()
    code = "\n".join([given, *pieces])
    _require_syntax(code, "the test code")
    names, imports = taken_from_program(code, program=gold)
    setup = f"{imports}{given}"
    tests = CodeTests(pieces, names, setup=setup, num_tests=count_tests(setup, pieces))
    hint = f"It must pass tests such as\n\n```python\n{listed[0].strip()}\n```" if listed else _calls(names)
    return f"{text}\n\n{hint}", gold, tests


def _called(row: Mapping[str, Any]) -> tuple[str, str, ProgramTests]:
    name = _name(row)
    if _has_text(row, "buggy"):
        buggy = str(row["buggy"]).strip()
        question = (
            f"This Python function has a bug. Write it correctly, under the same name.\n\n```python\n{buggy}\n```"
        )
    else:
        question = f"{_text(row, *TEXT_COLUMNS)}\n\n{_calls((name,))}"
    return question, _program(row), _suite(row, name) if _has_text(row, "pytest") else _cases(row, name)


def _suite(row: Mapping[str, Any], name: str) -> CodeTests:
    source, shared = str(row["pytest"]), str(row.get("node_py") or "")
    _require_syntax(source, "'pytest'")
    _require_syntax(shared, "'node_py'")
    suite = suite_of(source)
    pieces = tuple(f"{function}()" for function in suite.functions)
    return CodeTests(pieces, (name,), setup=suite.code, num_tests=count_tests(suite.code, pieces), shared=shared)


def _cases(row: Mapping[str, Any], name: str) -> CaseTests:
    cases: list[Case] = []
    for number, test in enumerate(_list(row, "tests"), 1):
        if not isinstance(test, Mapping) or not isinstance(test.get("args"), list) or "expected" not in test:
            raise UnusableRow(
                f"test {number} of 'tests' is {shown(test)}, where 'args' (a list) and 'expected' are wanted"
            )
        cases.append(Case(tuple(test["args"]), test["expected"]))
    return CaseTests(name, tuple(cases))


def _calls(names: Sequence[str]) -> str:
    return f"The tests call {', '.join(f'`{name}`' for name in names)}."


def _stdin(row: Mapping[str, Any]) -> tuple[str, str, StdinTests]:
    if _has_text(row, "input_file"):
        raise UnusableRow(f"its programs read the file {shown(row['input_file'])}, not standard input")
    found = [case for name in _STDIN_COLUMNS for case in _pairs(row, name)]
    if not found:
        raise UnusableRow(
            "no tests in a shape that is known ('test', 'test_list', 'tests', 'public_tests' or 'input_output')"
        )
    # a test that wants nothing printed proves nothing, and the same test twice proves no more than once
    usable = [case for case in dict.fromkeys(found) if case.stdout.strip()]
    cases: list[StdinCase] = []
    room = MAX_CASE_CHARS
    for case in usable[:MAX_CASES]:
        size = len(case.stdin) + len(case.stdout)
        if size <= room:
            cases.append(case)
            room -= size
    if usable and not cases:
        raise UnusableRow(f"every test is longer than {MAX_CASE_CHARS:,} characters")
    comparison, tolerance = _checker(row)
    tests = StdinTests(tuple(cases), comparison, tolerance, _time_limit(row))
    return f"{_text(row, *TEXT_COLUMNS)}\n\n{_STDIN_TASK}", _program(row), tests


def _pairs(row: Mapping[str, Any], column: str) -> list[StdinCase]:
    value: Any = _parsed(row.get(column))
    if isinstance(value, Mapping):  # {"input": [...], "output": [...]}
        if value.get("fn_name"):
            raise UnusableRow(f"its tests call the function {shown(value['fn_name'])}, and do not use standard input")
        stdins, stdouts = (value.get(name, value.get(f"{name}s")) or [] for name in ("input", "output"))
        if not isinstance(stdins, list) or not isinstance(stdouts, list):
            raise UnusableRow(f"{column!r} is {shown(value)}, where lists of inputs and outputs are wanted")
        if len(stdins) != len(stdouts):
            raise UnusableRow(f"{column!r} has {len(stdins)} inputs and {len(stdouts)} outputs")
        value = [{"stdin": stdin, "stdout": stdout} for stdin, stdout in zip(stdins, stdouts, strict=True)]
    pairs: list[StdinCase] = []
    tests: list[Any] = value if isinstance(value, list) else []
    for number, test in enumerate(tests, 1):
        fields: Mapping[str, Any] = test if isinstance(test, Mapping) else {}
        stdin, stdout = fields.get("stdin", fields.get("input")), fields.get("stdout", fields.get("output"))
        if not isinstance(stdin, str) or not isinstance(stdout, str):
            raise UnusableRow(
                f"test {number} of {column!r} is {shown(test)}, where two texts (stdin, stdout) are wanted"
            )
        pairs.append(StdinCase(stdin, stdout))
    return pairs


def _checker(row: Mapping[str, Any]) -> tuple[Any, float | None]:
    checker = row.get("checker")
    if checker in (None, "", "lines"):
        return "lines", None
    if checker == "tokens":
        return "tokens", None
    tolerance = _TOLERANCE.fullmatch(checker) if isinstance(checker, str) else None
    if tolerance is None:
        raise UnusableRow(f"'checker' is {shown(checker)}; known: lines, tokens, float:1e-6")
    return "tokens", float(tolerance[1])


def _time_limit(row: Mapping[str, Any]) -> float | None:
    value = row.get("time_limit_s", row.get("time_limit"))
    if isinstance(value, Mapping):  # {"seconds": 2, "nanos": 500000000}
        value = (value.get("seconds") or 0) + (value.get("nanos") or 0) / 1e9
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def _level(row: Mapping[str, Any]) -> float | None:
    for name in LEVEL_COLUMNS:
        value = row.get(name)
        if isinstance(value, Mapping) and len(value) == 1:  # {"first_subtask_points": 5.0}
            (value,) = value.values()
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None


def _text(row: Mapping[str, Any], *columns: str) -> str:
    for name in columns:
        if _has_text(row, name):
            return str(row[name]) if name in ("prompt", "test") and len(columns) == 1 else str(row[name]).strip()
    raise UnusableRow(f"no text in {' or '.join(map(repr, columns))}")


def _has_text(row: Mapping[str, Any], column: str) -> bool:
    return isinstance(row.get(column), str) and bool(row[column].strip())


def _program(row: Mapping[str, Any]) -> str:
    return next((str(row[name]) for name in PROGRAM_COLUMNS if _has_text(row, name)), "")


def _name(row: Mapping[str, Any]) -> str:
    name = row.get("entry_point")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UnusableRow(f"'entry_point' is {shown(name)}, where the name of a function is wanted")
    return name


def _list(row: Mapping[str, Any], column: str) -> list[Any]:
    value = _parsed(row.get(column))
    return value if isinstance(value, list) else []


def _parsed(value: Any) -> Any:
    """A list or object, also one that stands as JSON in a text column of a CSV file."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value


def _require_syntax(code: str, what: str) -> None:
    fault = syntax_fault(code)
    if fault is not None:
        raise UnusableRow(f"{what} is no Python: {fault}")
