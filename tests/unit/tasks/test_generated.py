import sys
from types import ModuleType

import pytest

from agon.config import TaskSettings
from agon.errors import ConfigError, DataError
from agon.tasks.loader import load_task


@pytest.fixture
def mine(monkeypatch):
    """A module in which a test puts its functions."""
    module = ModuleType("mine_generated")
    monkeypatch.setitem(sys.modules, "mine_generated", module)
    return module


def load(**settings):
    return load_task(TaskSettings(name="mine_generated:rows", **settings))


def counting(num_problems, seed):
    number = seed
    while True:
        yield {"question": f"What is {number} + 1?", "answer": number + 1}
        number += 1


def test_number_and_seed_come_from_the_settings_and_no_more_rows_are_taken(mine):
    mine.rows = counting
    task = load(num_generated=20, generator_seed=100)
    problems = [problem for split in task.splits.values() for problem in split]
    assert {problem.gold for problem in problems} == {str(number) for number in range(101, 121)}
    assert {problem.verifier for problem in problems} == {"math"}
    assert task.source == "mine_generated:rows (20 problems, seed 100)"


def test_other_columns_reach_a_verifier_of_ones_own_and_no_other(mine):
    mine.judge = print
    mine.rows = lambda num, seed: [{"question": f"q{i}", "answer": i, "unit": "m", "level": 3} for i in range(num)]
    own = load(num_generated=5, verifier="mine_generated:judge")
    assert [dict(problem.details) for problem in own.train] == [{"unit": "m"}] * len(own.train)
    assert [dict(problem.details) for problem in load(num_generated=5).train] == [{}] * len(own.train)


def test_a_bad_row_is_listed_with_its_number(mine):
    mine.judge = print
    rows = [*({"question": f"q{i}", "answer": i} for i in range(5)), "q", {"question": "x", "answer": 1, "when": {1}}]
    mine.rows = lambda num, seed: rows
    task = load(verifier="mine_generated:judge")
    assert [(row.number, row.reason) for row in task.bad_rows] == [
        (6, "'q', where a mapping of columns is wanted"),
        (7, "'when' is {1}, which JSON does not have"),
    ]


def test_a_function_that_fails_is_told_with_the_row(mine):
    def rows(num_problems, seed):
        yield {"question": "q", "answer": 1}
        raise KeyError("moon")

    mine.rows = rows
    with pytest.raises(DataError, match=r"mine_generated:rows failed after 1 rows \(KeyError: 'moon'\)"):
        load()
    mine.rows = lambda num, seed: sys.exit(0)
    with pytest.raises(DataError, match=r"failed after 0 rows \(RuntimeError: it called sys.exit\(0\)\)"):
        load()
    mine.rows = dict  # takes no number and seed
    with pytest.raises(DataError, match="failed after 0 rows"):
        load()


@pytest.mark.parametrize(
    ("rows", "given"),
    [
        ([], "no row at all"),
        ([1, 2, 3], "row 1 is 1, where a mapping of columns is wanted"),
        ([{}], "row 1 is empty"),
        ({"question": "q", "answer": 1}, "row 1 is 'question', where a mapping of columns is wanted"),
    ],
)
def test_a_function_without_a_single_problem_is_told_what_it_must_give(mine, rows, given):
    mine.rows = lambda num_problems, seed: rows
    with pytest.raises(DataError) as refused:
        load()
    assert str(refused.value) == (
        f"mine_generated:rows gave no problem ({given}): it must return or yield mappings of columns, one a problem"
    )


def test_settings_that_would_do_nothing_are_refused(mine):
    mine.rows = counting
    with pytest.raises(ConfigError, match=r"task\.path is 'x\.jsonl', but mine_generated:rows is generated"):
        load(path="x.jsonl")


def test_a_verifier_that_cannot_be_imported_is_refused_before_anything_is_read(mine):
    mine.rows = counting
    with pytest.raises(ConfigError, match=r"task\.verifier is .mine_generated:judge., which cannot be imported"):
        load(verifier="mine_generated:judge")
