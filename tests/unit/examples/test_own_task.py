"""The example of a task in one file: its rows by hand. Through the command line: tests/e2e/test_own_task.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agon.config import TaskSettings
from agon.tasks.loader import load_task
from agon.verifiers.expression import check_expression

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(autouse=True)
def _on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield
    sys.modules.pop("own_task", None)


def load(**settings):
    return load_task(TaskSettings(name="own_task:rows", verifier="expression", **settings))


def test_every_gold_solves_its_problem_and_no_row_is_dropped():
    task = load(num_generated=300)
    problems = [problem for split in task.splits.values() for problem in split]
    assert len(problems) + task.num_duplicates == 300
    assert task.bad_rows == ()
    assert {check_expression(problem, problem.gold).outcome for problem in problems} == {"correct"}
    assert {problem.summary_style for problem in problems} == {"tries"}


def test_the_same_seed_gives_the_same_rows_and_another_seed_others():
    first, again, other = load(num_generated=20), load(num_generated=20), load(num_generated=20, generator_seed=1)
    assert first.splits == again.splits
    assert first.splits != other.splits
