from __future__ import annotations

import json

import pytest

from agon.config import TaskSettings
from agon.errors import ConfigError
from agon.program_tests import Case, CaseTests, CodeTests, StdinCase, StdinTests, from_details
from agon.tasks.loader import load_task
from agon.tasks.programs import MAX_CASE_CHARS, MAX_CASES, is_code_shape, program_problem
from agon.tasks.rows import UnusableRow

HUMANEVAL = {
    "task_id": "HumanEval/0",
    "prompt": 'import math\n\ndef double(x):\n    """Double it."""\n',
    "entry_point": "double",
    "canonical_solution": "    return 2 * x\n",
    "test": "def check(candidate):\n    assert candidate(1) == 2\n    assert candidate(3) == 6\n",
}
MBPP = {
    "text": "Write a function to double a number.",
    "code": "def double(x):\r\n  return 2 * x",
    "test_list": ["assert double(1) == 2", "assert double(3) == 6"],
    "test_setup_code": "",
    "challenge_test_list": [],
}
CONTEST = {
    "name": "1_A. Doubling",
    "description": "Double the number.",
    "public_tests": {"input": ["1\n"], "output": ["2\n"]},
    "private_tests": {"input": ["3\n"], "output": ["6\n"]},
    "generated_tests": {"input": [], "output": []},
    "time_limit": {"seconds": 1, "nanos": 500_000_000},
    "difficulty": 7,
    "input_file": "",
}


def problem(row):
    return program_problem(row, task="t")


def read(row):
    return from_details(problem(row).details)


def test_a_humaneval_row_asks_for_the_whole_function_and_keeps_its_tests_hidden():
    found = problem(HUMANEVAL)
    assert found.question == f"Complete this Python function.\n\n```python\n{HUMANEVAL['prompt'].strip()}\n```"
    assert found.gold == HUMANEVAL["prompt"] + HUMANEVAL["canonical_solution"]
    assert found.verifier == "code"
    assert from_details(found.details) == CodeTests(
        ("check(double)",), ("double",), setup=HUMANEVAL["test"], prefix=HUMANEVAL["prompt"], num_tests=2
    )


def test_an_mbpp_row_shows_its_first_test_alone():
    found = problem(MBPP)
    assert "assert double(1) == 2" in found.question
    assert "6" not in found.question
    assert found.gold == MBPP["code"]
    assert from_details(found.details) == CodeTests(tuple(MBPP["test_list"]), ("double",), num_tests=2)


def test_the_sanitized_columns_of_mbpp_are_read_too():
    row = {
        "prompt": MBPP["text"],
        "code": MBPP["code"],
        "test_imports": ["import math"],
        "test_list": MBPP["test_list"],
    }
    assert read(row) == CodeTests(tuple(MBPP["test_list"]), ("double",), setup="import math", num_tests=2)


def test_a_test_script_is_one_piece_and_its_list_only_the_example():
    script = "inputs = [1, 2, 3]\nfor x in inputs:\n    assert double(x) == 2 * x"
    assert read({**MBPP, "test": script}) == CodeTests((script,), ("double",), num_tests=3)
    assert "The tests call `double`." in problem({"prompt": "Double it.", "test": script}).question


def test_a_repair_row_shows_the_buggy_program_and_its_gold_is_the_fixed_one():
    row = {
        "entry_point": "f",
        "buggy": "def f(x): return x",
        "fixed": "def f(x): return 2 * x",
        "tests": [{"args": [1], "expected": 2}],
    }
    found = problem(row)
    assert "def f(x): return x" in found.question
    assert found.gold == row["fixed"]
    assert from_details(found.details) == CaseTests("f", (Case((1,), 2),))


def test_a_pytest_row_runs_its_functions_in_order_and_shares_its_classes():
    source = (
        "from node import Node\ndef test1():\n    assert f(Node(1)) == 1\n\ndef test2():\n    assert f(Node(2)) == 2\n"
    )
    row = {
        "entry_point": "f",
        "buggy": "def f(x): 1",
        "fixed": "def f(x): return x.n",
        "pytest": source,
        "node_py": "class Node: ...",
        "tests": None,
    }
    tests = read(row)
    assert isinstance(tests, CodeTests)
    assert (tests.pieces, tests.names, tests.shared, tests.num_tests) == (
        ("test1()", "test2()"),
        ("f",),
        "class Node: ...",
        2,
    )


def test_a_contest_row_of_the_hub_gives_all_its_tests_in_order():
    found = problem(CONTEST)
    assert found.question.startswith("Double the number.")
    assert "standard input" in found.question
    assert (found.gold, found.level) == ("", 7.0)
    assert from_details(found.details) == StdinTests(
        (StdinCase("1\n", "2\n"), StdinCase("3\n", "6\n")), time_limit_s=1.5
    )


@pytest.mark.parametrize("as_text", [False, True])
def test_the_inputs_and_outputs_of_apps_and_taco_are_tests(as_text):
    both = {"inputs": ["1\n", "3\n"], "outputs": ["2\n", "6\n"]}
    row = {"question": "Double it.", "input_output": json.dumps(both) if as_text else both}
    assert read(row) == StdinTests((StdinCase("1\n", "2\n"), StdinCase("3\n", "6\n")))


def test_a_contest_row_may_name_how_outputs_are_compared():
    row = {"prompt": "p", "tests": [{"stdin": "1", "stdout": "2", "kind": "sample"}], "time_limit_s": 20.0}
    assert read({**row, "checker": "tokens"}).comparison == "tokens"
    assert read({**row, "checker": "float:1e-6"}).tolerance == 1e-6
    assert read(row).comparison == "lines"
    with pytest.raises(UnusableRow, match="'special'"):
        problem({**row, "checker": "special"})


def test_a_level_in_an_object_of_one_number_counts():
    row = {"prompt": "p", "tests": [{"stdin": "1", "stdout": "2"}]}
    assert problem({**row, "level": {"first_subtask_points": 5.0}}).level == 5.0
    assert problem({**row, "level": "MEDIUM"}).level is None


def test_doubled_tests_and_tests_without_output_are_left_out():
    tests = [{"stdin": "1", "stdout": "2"}, {"stdin": "1", "stdout": "2"}, {"stdin": "9", "stdout": "\n"}]
    assert read({"prompt": "p", "tests": tests}).cases == (StdinCase("1", "2"),)


def test_of_very_many_or_very_long_tests_the_first_that_fit_are_used():
    many = [{"stdin": str(number), "stdout": "x"} for number in range(MAX_CASES + 5)]
    assert len(read({"prompt": "p", "tests": many}).cases) == MAX_CASES
    long = [{"stdin": "1" * MAX_CASE_CHARS, "stdout": "x"}, {"stdin": "1", "stdout": "y"}]
    assert read({"prompt": "p", "tests": long}).cases == (StdinCase("1", "y"),)
    with pytest.raises(UnusableRow, match="every test is longer"):
        problem({"prompt": "p", "tests": long[:1]})


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({**HUMANEVAL, "test": " \n"}, "no text in 'test'"),
        ({**HUMANEVAL, "test": "def check(:"}, "no Python"),
        ({**HUMANEVAL, "entry_point": "no name"}, "'entry_point'"),
        ({**HUMANEVAL, "prompt": ""}, "no text in 'prompt'"),
        ({**MBPP, "test_list": []}, "no tests"),
        ({**MBPP, "test_list": ["  ", ""]}, "no tests"),
        ({**MBPP, "test_list": ["assert True"]}, "call nothing"),
        ({**MBPP, "text": " "}, "no text"),
        ({"entry_point": "f", "prompt": "p", "tests": []}, "no tests"),
        ({"entry_point": "f", "prompt": "p", "tests": [{"args": 1}]}, "test 1"),
        ({**CONTEST, "public_tests": {"input": ["1"], "output": [" \n"]}, "private_tests": {}}, "expected output"),
        ({**CONTEST, "input_file": "in.txt"}, "in.txt"),
        ({"prompt": "p", "tests": [{"stdin": "1", "stdout": 2}]}, "test 1"),
        ({"prompt": "p"}, "no tests"),
        ({"prompt": "p", "input_output": {"inputs": ["1", "2"], "outputs": ["2"]}}, "2 inputs and 1 outputs"),
        ({**CONTEST, "public_tests": {"input": 5, "output": 6}}, "lists of inputs and outputs"),
        ({"prompt": "p", "input_output": {"fn_name": "f", "inputs": [[1]], "outputs": [2]}}, "call the function 'f'"),
        ({**MBPP, "text": "half \ud800"}, "U\\+D800"),
    ],
)
def test_a_row_without_text_or_without_a_test_that_could_fail_is_unusable(row, reason):
    with pytest.raises(UnusableRow, match=reason):
        problem(row)


def test_a_file_of_code_rows_is_loaded_and_bad_rows_are_named(tmp_path):
    file = tmp_path / "rows.jsonl"
    rows = [HUMANEVAL, MBPP, CONTEST, {**MBPP, "text": "No tests.", "test_list": []}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = load_task(TaskSettings(name="custom", path=str(file), verifier="code", answer_style="code"))
    assert len(task.train) + len(task.dev) + len(task.test) == 3
    assert [(row.number, row.reason) for row in task.bad_rows] == [(4, "no tests")]


def test_lists_may_stand_as_json_in_a_csv_file(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text('text,code,test_list\nDouble it.,def double(x): pass,"[""assert double(1) == 2""]"\n')
    task = load_task(TaskSettings(name="custom", test_path=str(file), verifier="code", answer_style="code"))
    assert from_details(task.test[0].details).pieces == ("assert double(1) == 2",)


@pytest.mark.parametrize(
    ("columns", "is_code"),
    [
        (HUMANEVAL, True),
        (MBPP, True),
        (CONTEST, True),
        (["question", "input_output", "solutions"], True),
        (["prompt", "test"], True),
        (["question", "tests", "solution"], True),
        (["buggy", "fixed", "entry_point", "tests"], True),
        (["prompt", "entry_point", "pytest"], True),
        # a test beside an answer may be anything
        (["question", "answer", "test"], False),
        (["question", "answer", "tests"], False),
        (["question", "answer"], False),
        (["problem", "solution", "level"], False),
        (["test_list"], False),
    ],
)
def test_code_problems_are_known_by_their_columns(columns, is_code):
    assert is_code_shape(columns) is is_code


@pytest.mark.parametrize("mapped", [{}, {"answer_field": "code"}])
def test_programs_are_never_read_as_answers_unless_a_verifier_is_named(tmp_path, mapped):
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps({**MBPP, "text": f"Double, {n} times."}) + "\n" for n in range(4)))
    with pytest.raises(ConfigError, match=r'holds programs .*: set task\.verifier and task\.answer_style to "code"'):
        load_task(TaskSettings(name="custom", path=str(path), **mapped))
    named = {"question_field": "text", "answer_field": "text", "verifier": "exact"}
    assert load_task(TaskSettings(name="custom", path=str(path), **named)).train[0].verifier == "exact"
