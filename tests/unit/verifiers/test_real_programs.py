"""Verdicts on public programs. The files are not part of the project: AGON_DATA names their folder, and without it these are skipped."""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path

import pytest

from agon.config import VerifierSettings
from agon.tasks.programs import program_problem
from agon.verifiers.code import CodeChecker

DATA = Path(os.environ.get("AGON_DATA", "no folder is named"))
pytestmark = [
    pytest.mark.skipif(not DATA.is_dir(), reason="AGON_DATA names no folder"),
    pytest.mark.skipif(sys.platform != "linux", reason="programs run on Linux only"),
]


@pytest.fixture(scope="module")
def checker():
    made = CodeChecker(VerifierSettings(code_timeout_s=20.0, unsafe_code_execution=True))
    yield made
    made.close()


def rows_of(stem):
    with gzip.open(DATA / f"{stem}.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [(row, program_problem(row, task=stem)) for row in rows]


def test_canonical_functions_pass_and_stubs_do_not(checker):
    rows = rows_of("humaneval")
    canonical = checker.check([(problem, problem.gold) for _, problem in rows])
    assert [verdict.reason for verdict in canonical if not verdict.is_correct] == []
    bodies = checker.check([(problem, row["canonical_solution"]) for row, problem in rows])
    assert all(verdict.is_correct for verdict in bodies)
    stubs = checker.check([(p, f"def {row['entry_point']}(*_, **__): return object()") for row, p in rows])
    assert {verdict.outcome for verdict in stubs} == {"wrong"}


@pytest.mark.slow
def test_fixed_programs_pass_and_buggy_ones_do_not(checker):
    rows = rows_of("quixbugs")
    assert all(verdict.is_correct for verdict in checker.check([(problem, row["fixed"]) for row, problem in rows]))
    buggy = checker.check([(problem, row["buggy"]) for row, problem in rows])
    assert {verdict.outcome for verdict in buggy} == {"wrong", "timeout"}


@pytest.mark.slow
def test_assertions_of_mbpp_pass_their_canonical_programs(checker):
    verdicts = checker.check([(problem, problem.gold) for _, problem in rows_of("mbpp_sanitized")])
    assert [verdict.reason for verdict in verdicts if not verdict.is_correct] == []
