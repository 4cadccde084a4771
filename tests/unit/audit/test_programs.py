from __future__ import annotations

import json

import pytest

from agon.audit.judge import judge_all
from agon.audit.pairs import summarize
from agon.audit.programs import Chosen, check_program, open_programs, read_problem, read_programs
from agon.config import VerifierSettings
from agon.errors import ConfigError, DataError

DOUBLE = {
    "id": "double",
    "prompt": "Double a number.",
    "kind": "asserts",
    "test_list": ["assert double(2) == 4", "assert double(-1) == -2"],
    "good": "def double(n):\n    return 2 * n\n",
    "bad": "def double(n):\n    return 4\n",
}


def file_of(tmp_path, *rows, name="task.jsonl", indent=None):
    path = tmp_path / name
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row, indent=indent)) + "\n" for row in rows))
    return path


def tables(path):
    return open_programs(str(path), key="--task", allows_names=True)


def programs(tmp_path, *rows, field, is_expected_right=True):
    return read_programs(tables(file_of(tmp_path, *rows)), field=field, is_expected_right=is_expected_right)


def judged(pairs):
    checks = [check_program(row.problem, row.text, row) for row in pairs.rows]
    return judge_all(checks, VerifierSettings(workers=1), lambda done, total: None)


def test_each_rows_own_program_is_run_against_its_tests(tmp_path):
    counts = {
        field: summarize(judged(programs(tmp_path, DOUBLE, field=field, is_expected_right=field == "good")))
        for field in ("good", "bad")
    }
    assert counts["good"]["outcomes"] == {"correct": 1}
    assert counts["bad"]["outcomes"] == {"wrong": 1}
    assert [count["agree"] for count in counts.values()] == [1, 1]
    assert counts["good"]["by_kind"].keys() == {"asserts"}


def test_a_row_without_tests_or_without_a_program_is_named(tmp_path):
    rows = [DOUBLE, DOUBLE | {"test_list": []}, DOUBLE | {"good": None}, DOUBLE | {"good": " "}, "{broken"]
    pairs = programs(tmp_path, *rows, field="good")
    assert [(row.number, row.id) for row in pairs.rows] == [(1, "double")]
    assert [row.number for row in pairs.bad] == [2, 3, 4, 5]
    assert "'good' is None, where a program is wanted" in pairs.bad[1].reason


def test_a_field_that_is_not_there_is_named_with_the_nearest(tmp_path):
    with pytest.raises(ConfigError, match=r"no field 'godo' .did you mean 'good'"):
        programs(tmp_path, DOUBLE, field="godo")
    with pytest.raises(DataError, match="row 1: 'good' is None"):
        programs(tmp_path, DOUBLE | {"good": None}, field="good")


def test_a_task_that_cannot_be_reached_is_replaced_by_a_file(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataError, match=r"openai_humaneval' .*: give a file of the same shape: --task FILE$"):
        open_programs("humaneval", key="--task", allows_names=True)


def test_a_row_is_chosen_by_its_number_or_its_name(tmp_path):
    other = DOUBLE | {"id": "other", "prompt": "Another."}
    (table,) = tables(file_of(tmp_path, DOUBLE, other))
    by_number, by_name = read_problem(table, Chosen(2, None)), read_problem(table, Chosen(None, "other"))
    assert by_number == by_name
    assert "Another." in by_name.question


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        (Chosen(None, None), "holds 3 rows: choose one with --row N or --id ID"),
        (Chosen(9, None), "no row 9: its rows are 1 to 3"),
        (Chosen(None, "doubel"), "no row has the id 'doubel' .did you mean 'double'"),
        (Chosen(None, "double"), "2 rows have the id 'double'"),
        (Chosen(3, None), "row 3 is no code problem: "),
    ],
)
def test_a_choice_that_means_no_row_or_several_says_what_there_is(tmp_path, chosen, said):
    (table,) = tables(file_of(tmp_path, DOUBLE, DOUBLE, {"id": "none", "prompt": "no tests"}))
    with pytest.raises(DataError, match=said):
        read_problem(table, chosen)


@pytest.mark.parametrize(("name", "indent"), [("p.json", 2), ("p.jsonl", 2), ("p.json", None), ("p.jsonl", None)])
def test_the_only_problem_of_a_file_needs_no_choice_and_may_take_many_lines(tmp_path, name, indent):
    (table,) = tables(file_of(tmp_path, DOUBLE, name=name, indent=indent))
    assert "Double a number." in read_problem(table, Chosen(None, None)).question


def test_what_is_neither_a_file_nor_a_code_task_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"no-such.*named tasks: .*humaneval"):
        tables("no-such")
    with pytest.raises(ConfigError, match="humaneval"):
        open_programs("humaneval", key="--problem", allows_names=False)
    with pytest.raises(DataError, match="no rows"):
        read_problem(tables(file_of(tmp_path, name="empty.jsonl"))[0], Chosen(None, None))
