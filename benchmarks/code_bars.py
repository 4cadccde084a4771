"""What the code judge must get right, and how fast it is, in one table.

    python benchmarks/code_bars.py [DATA] [--workers 2] [--repeats 3]

DATA (or the environment variable AGON_DATA) is a folder with the files of humaneval, humaneval_plus, mbpp_sanitized, mbpp_plus,
quixbugs, google_contests_stdin_small and code_contests_sample, each as STEM.jsonl.gz. Without it only the speed is measured.

Canonical and fixed programs must pass, stubs that return `object()` and buggy programs must not (rows whose tests are marked weak
aside). Canonical programs get 60 s and 4 GB: two of EvalPlus's need more than the settings' defaults, and are named. Speed: distinct
programs of a few lines with three tests each, from the checker's call to its verdicts, the processes already up; the best of the repeats.
Ends with status 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agon.config import VerifierSettings
from agon.program_tests import CodeTests, StdinCase, StdinTests, from_details, num_tests_of, to_details
from agon.records import Problem, Verdict
from agon.tasks.programs import program_problem
from agon.tasks.rows import UnusableRow
from agon.verifiers.code import CodeChecker

FUNCTIONS = ("humaneval", "humaneval_plus", "mbpp_sanitized", "mbpp_plus")
CONTESTS = ("google_contests_stdin_small", "code_contests_sample")
LEAST_PER_S = 25.0
LEAST_LOADED = 0.95
NUM_SMALL = 200

Row = tuple[dict[str, Any], Problem]


class Table:
    """Prints a line as soon as it is known, and remembers whether every bar was met."""

    def __init__(self) -> None:
        self.is_met = True
        print(f"{'what':44} {'n':>6} {'as wanted':>10}  bar")

    def line(self, what: str, *, num: int, right: float, bar: str, is_met: bool, notes: Sequence[str] = ()) -> None:
        self.is_met &= is_met
        print(f"{what:44} {num:>6} {right:>10g}  {bar}: {'met' if is_met else 'MISSED'}", flush=True)
        for note in notes:
            print(f"    {note}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", default=os.environ.get("AGON_DATA"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    table = Table()
    if arguments.data is None:
        print("no data folder: name one, or set AGON_DATA; only the speed is measured, so the bars count as missed")
    else:
        check_data(Path(arguments.data), table, arguments.workers)
    measure_speed(table, arguments.workers, arguments.repeats)
    sys.exit(0 if table.is_met and arguments.data is not None else 1)


def check_data(data: Path, table: Table, workers: int) -> None:
    ample = CodeChecker(VerifierSettings(workers=workers, code_timeout_s=60.0, code_memory_mb=4096, code_output_mb=256))
    usual = CodeChecker(VerifierSettings(workers=workers))
    try:
        for stem in FUNCTIONS:
            rows = read(data, stem, table)
            judge_all(table, ample, f"{stem}: canonical", rows, lambda row, problem: problem.gold, is_right=True)
            slow = (
                [row for row in rows if not usual.check([(row[1], row[1].gold)])[0].is_correct]
                if "plus" in stem
                else []
            )
            for raw, problem in slow:
                print(f"    with the default limits: {raw['id']}: {usual.check([(problem, problem.gold)])[0].reason}")
            stubbed = [row for row in rows if "weak_tests" not in row[0]]
            judge_all(table, usual, f"{stem}: object() stubs", stubbed, stub, is_right=False)
        rows = read(data, "quixbugs", table)
        judge_all(table, usual, "quixbugs: fixed", rows, lambda row, problem: row["fixed"], is_right=True)
        judge_all(table, usual, "quixbugs: buggy", rows, lambda row, problem: row["buggy"], is_right=False)
        judge_all(table, usual, "quixbugs: object() stubs", rows, stub, is_right=False)
    finally:
        ample.close()
        usual.close()
    for stem in CONTESTS:
        load_contests(data, stem, table)


def read(data: Path, stem: str, table: Table) -> list[Row]:
    rows: list[Row] = []
    refused: list[str] = []
    with gzip.open(data / f"{stem}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            try:
                rows.append((row, program_problem(row, task=stem)))
            except UnusableRow as unusable:
                refused.append(f"{row['id']}: {unusable}")
    if refused:
        table.line(
            f"{stem}: rows", num=len(rows) + len(refused), right=len(rows), bar="all", is_met=False, notes=refused
        )
    return rows


def judge_all(
    table: Table, checker: CodeChecker, what: str, rows: list[Row], program: Callable[..., str], *, is_right: bool
) -> None:
    verdicts = checker.check([(problem, program(row, problem)) for row, problem in rows])
    wanted = [is_wanted(verdict, is_right=is_right) for verdict in verdicts]
    notes = [
        f"{row['id']}: {verdict.outcome}: {verdict.reason}"
        for (row, _), verdict, is_so in zip(rows, verdicts, wanted, strict=True)
        if not is_so
    ]
    outcomes = Counter(verdict.outcome for verdict in verdicts)
    bar = f"all {'pass' if is_right else 'fail'} ({', '.join(f'{n} {outcome}' for outcome, n in outcomes.items())})"
    table.line(what, num=len(rows), right=sum(wanted), bar=bar, is_met=all(wanted), notes=notes)


def is_wanted(verdict: Verdict, *, is_right: bool) -> bool:
    return verdict.is_correct if is_right else verdict.outcome in ("wrong", "timeout")


def stub(row: dict[str, Any], problem: Problem) -> str:
    names = problem.details.get("names") or [problem.details["name"]]
    return "".join(f"def {name}(*args, **kwargs):\n    return object()\n" for name in names)


def load_contests(data: Path, stem: str, table: Table) -> None:
    rows = read(data, stem, table)
    given = sum(len(row["tests"]) for row, _ in rows)
    used = sum(num_tests_of(from_details(problem.details)) or 0 for _, problem in rows)
    faulty = [
        f"{row['id']}, test {number}: {'nothing to be printed' if not test['stdout'].strip() else 'said before'}"
        for row, _ in rows
        for number, test in enumerate(row["tests"], 1)
        if not test["stdout"].strip() or test["stdin"] in [earlier["stdin"] for earlier in row["tests"][: number - 1]]
    ]
    usable = given - len(faulty)
    bar = f"{LEAST_LOADED:.0%} loadable; {used} used (at most 100 a problem)"
    met = usable >= LEAST_LOADED * given
    table.line(f"{stem}: tests", num=given, right=usable, bar=bar, is_met=met, notes=faulty)


def small_programs() -> list[tuple[Problem, str]]:
    jobs: list[tuple[Problem, str]] = []
    for number in range(NUM_SMALL):
        if number % 4 == 3:
            stdin = StdinTests(tuple(StdinCase(f"{n} {number}\n", f"{n + number}\n") for n in range(3)))
            problem = Problem(f"s{number}", "", "", "bench", "code", details=to_details(stdin))
            jobs.append((problem, "a, b = map(int, input().split())\nprint(a + b)"))
        else:
            asserts = tuple(f"assert total([1, {n}, {number}]) == {1 + n + number}" for n in range(3))
            problem = Problem(
                f"f{number}", "", "", "bench", "code", details=to_details(CodeTests(asserts, ("total",), num_tests=3))
            )
            jobs.append(
                (problem, "def total(xs):\n    result = 0\n    for x in xs:\n        result += x\n    return result")
            )
    return jobs


def measure_speed(table: Table, workers: int, repeats: int) -> None:
    checker = CodeChecker(VerifierSettings(workers=workers))
    jobs = small_programs()
    try:
        for part in (jobs[:NUM_SMALL:4], jobs[3::4], jobs):  # the first round starts the processes
            rates: list[float] = []
            for _ in range(repeats):
                started = time.perf_counter()
                verdicts = checker.check(part)
                rates.append(len(part) / (time.perf_counter() - started))
                assert all(verdict.is_correct for verdict in verdicts), "every small program is right"
            kinds = {verdict_kind(problem) for problem, _ in part}
            what = f"speed, {workers} workers: {' and '.join(sorted(kinds))}"
            bar = f"{LEAST_PER_S:g} programs/s"
            table.line(what, num=len(part), right=round(max(rates), 1), bar=bar, is_met=max(rates) >= LEAST_PER_S)
    finally:
        checker.close()


def verdict_kind(problem: Problem) -> str:
    return "functions" if problem.details["kind"] == "code" else "stdin"


if __name__ == "__main__":
    main()
