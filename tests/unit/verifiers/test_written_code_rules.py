"""The tables about code of docs/verdicts.md, run row by row."""

from __future__ import annotations

import sys
from itertools import takewhile
from pathlib import Path

import pytest

from agon.answers import extract_answer
from agon.config import VerifierSettings
from agon.program_tests import CodeTests, to_details
from agon.records import Problem
from agon.verifiers.code import CodeChecker
from agon.verifiers.outputs import difference

PAGE = (Path(__file__).parents[3] / "docs" / "verdicts.md").read_text(encoding="utf-8")


def table(*header):
    """The rows of the one table with this header, their line breaks and fences as they are meant."""
    _, _, after = PAGE.partition(f"| {' | '.join(header)} |\n")
    rows = list(takewhile(lambda line: line.startswith("|"), after.splitlines()))[1:]
    assert rows, f"no table {header} on the page"
    return [tuple(meant(cell.strip()) for cell in row.split("|")[1:-1]) for row in rows]


def meant(cell):
    if not cell.startswith("`"):
        return cell
    return cell[1:-1].replace(r"\n", "\n").replace(r"\r", "\r").replace("'''", "```")


@pytest.mark.parametrize(("completion", "program"), table("completion", "program"))
def test_examples_of_extraction(completion, program):
    assert extract_answer(completion, "code") == (None if program == "none" else program)


@pytest.mark.skipif(sys.platform != "linux", reason="programs run on Linux only")
def test_examples_of_programs():
    rows = table("tests", "program", "verdict")
    jobs = [
        (Problem(str(number), "q", "", "t", "code", details=to_details(CodeTests((tests,), ("f",)))), program)
        for number, (tests, program, _) in enumerate(rows)
    ]
    checker = CodeChecker(VerifierSettings(workers=2, code_timeout_s=2.0, unsafe_code_execution=True))
    try:
        found = [verdict.outcome for verdict in checker.check(jobs)]
    finally:
        checker.close()
    assert [(*row[:2], outcome) for row, outcome in zip(rows, found, strict=True)] == rows
    assert {"correct", "wrong", "unparsed", "timeout", "error"} == set(found)


@pytest.mark.parametrize(("rule", "expected", "printed", "verdict"), table("rule", "expected", "printed", "verdict"))
def test_examples_of_outputs(rule, expected, printed, verdict):
    name, _, tolerance = rule.partition(":")
    found = difference(
        expected,
        printed,
        comparison="lines" if name == "lines" else "tokens",
        tolerance=float(tolerance) if tolerance else None,
    )
    assert ("wrong" if found else "correct") == verdict


def test_every_rule_for_outputs_has_a_right_and_a_wrong_example():
    rows = table("rule", "expected", "printed", "verdict")
    assert {(rule, verdict) for rule, _, _, verdict in rows} == {
        (rule, verdict) for rule in ("lines", "tokens", "float:1e-6") for verdict in ("correct", "wrong")
    }
