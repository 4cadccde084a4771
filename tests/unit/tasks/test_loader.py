import json
import os
import re
import socket
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agon.config import TaskSettings
from agon.errors import ConfigError, DataError
from agon.records import Problem
from agon.tasks import hub
from agon.tasks.account import summary_lines
from agon.tasks.loader import drop_long, load_task

SHARED = Path(os.environ.get("AGON_DATA", "no folder is named"))
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="AGON_DATA names no folder")


@pytest.fixture
def write(tmp_path):
    def written(rows, name="x.jsonl"):
        path = tmp_path / name
        path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
        return str(path)

    return written


def rows(count, start=0):
    return [{"question": f"What is {n} + 1?", "answer": n + 1, "level": n % 10} for n in range(start, start + count)]


def load(path, **settings):
    return load_task(TaskSettings(**{"name": "custom", "path": path, **settings}))


def questions(*splits):
    return {problem.question for split in splits for problem in split}


def test_every_problem_is_in_exactly_one_split(write):
    data = load(write(rows(500)))
    assert len(data.train) + len(data.dev) + len(data.test) == 500
    assert questions(data.train, data.dev, data.test) == {row["question"] for row in rows(500)}
    # 10 % each of 500: binomial, sd 6.7
    assert 30 <= len(data.dev) <= 70
    assert 30 <= len(data.test) <= 70


def test_the_split_does_not_depend_on_order_or_on_other_rows(write):
    some, more = load(write(rows(200))), load(write(list(reversed(rows(400))), "y.jsonl"))
    assert questions(some.test) < questions(more.test)
    assert questions(some.dev) < questions(more.dev)
    assert not questions(some.train) & questions(more.test, more.dev)


def test_a_small_file_still_has_something_in_every_split(write):
    data = load(write(rows(4)))
    assert min(len(data.train), len(data.dev), len(data.test)) >= 1
    assert len(data.train) + len(data.dev) + len(data.test) == 4


def test_shares_of_zero_give_empty_splits(write):
    data = load(write(rows(50)), dev_share=0.0, test_share=0.0)
    assert (len(data.train), len(data.dev), len(data.test)) == (50, 0, 0)


def test_duplicates_are_counted_whatever_their_spacing_and_case(write):
    ten = [{"question": f"Solve  for x: x = {n}", "answer": n} for n in range(10)]
    shouted = [{"question": f"SOLVE for x:  X = {n} ", "answer": n} for n in range(10)]
    data = load(write((ten + shouted) * 50))
    assert len(data.train) + len(data.dev) + len(data.test) == 10
    assert data.num_duplicates == 990


def test_the_same_question_with_another_answer_is_a_bad_row(write):
    data = load(write([*rows(5), {"question": "What is 2 + 1?", "answer": 4}]))
    assert [(row.number, row.reason) for row in data.bad_rows] == [
        (6, "the same question as row 3, but another answer")
    ]


def test_bad_rows_are_listed_by_number_and_dropped(write):
    bad = ["{broken", {"question": "x"}, {"question": "y", "answer": None}, {"question": "", "answer": 1}]
    data = load(write([*rows(5), *bad]))
    assert len(data.train) + len(data.dev) + len(data.test) == 5
    assert [row.number for row in data.bad_rows] == [6, 7, 8, 9]
    assert data.bad_rows[2].reason == "'answer' is None, where text or a number is wanted"


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_an_answer_of_each_type_is_taken_or_refused_by_its_line(write, tmp_path, ending):
    # Parquet holds one type a column: there a list column, a bool column and a null stand for the others.
    answers = [7, "7", 7.0, [7], None, True]
    if ending == "jsonl":
        data = load(write([{"question": f"q{n}", "answer": answer} for n, answer in enumerate(answers)] + rows(2)))
        assert {problem.gold for split in data.splits.values() for problem in split} == {"7", "1", "2"}
        assert [(row.number, row.reason) for row in data.bad_rows] == [
            (4, "'answer' is [7], where text or a number is wanted"),
            (5, "'answer' is None, where text or a number is wanted"),
            (6, "'answer' is True, where text or a number is wanted"),
        ]
        return
    for column, value in ((pa.array([[7]]), "[7]"), (pa.array([True]), "True"), (pa.array([None]), "None")):
        pq.write_table(pa.table({"question": ["x"], "answer": column}), tmp_path / "x.parquet")
        with pytest.raises(DataError, match=re.escape(f"row 1: 'answer' is {value}, where text or a number")):
            load(str(tmp_path / "x.parquet"))


def test_a_value_of_a_megabyte_is_shortened_in_what_is_said_about_it(write):
    data = load(write([*rows(5), {"question": "x", "answer": ["y" * 1_000_000]}]))
    assert len(data.bad_rows[0].reason) < 200


def test_levels_and_guessable_answers_are_filtered(write):
    made = [*rows(100), {"question": "Is it?", "answer": "yes", "level": 5}]
    data = load(write(made), difficulty_min=5, difficulty_max=6.5)
    assert {problem.level for problem in (*data.train, *data.dev, *data.test)} == {5.0, 6.0}
    assert data.num_filtered == 81
    kept = load(write(made), drop_yes_no=False)
    assert "Is it?" in questions(kept.train, kept.dev, kept.test)


def test_max_train_picks_the_same_problems_in_any_order(write):
    data = load(write(rows(100)), max_train=7)
    other = load(write(list(reversed(rows(100))), "y.jsonl"), max_train=7)
    assert len(data.train) == 7
    assert questions(data.train) == questions(other.train)


def test_a_test_file_is_the_test_split_as_it_is(write):
    data = load(write(rows(50)), test_path=write(rows(10, start=1000), "test.jsonl"))
    assert questions(data.test) == {row["question"] for row in rows(10, start=1000)}
    assert len(data.train) + len(data.dev) == 50
    assert len(data.dev) >= 1


def test_a_test_file_without_a_usable_row_is_not_replaced_by_a_share_of_the_other(write):
    data = load(write(rows(50)), test_path=write([{"question": "x", "answer": None}], "test.jsonl"))
    assert data.test == ()


def test_every_problem_is_traced_to_its_row(write):
    train, test = write([{"question": "blank"}, *rows(5)]), write(rows(3, start=100), "test.jsonl")
    data = load(train, test_path=test)
    assert {data.origins[problem.id] for problem in data.test} == {(1, test), (2, test), (3, test)}
    assert {data.origins[one.id] for one in (*data.train, *data.dev)} == {(number, train) for number in range(2, 7)}


def test_a_problem_in_train_and_test_is_refused_with_both_rows(write):
    train = [*rows(7), {"question": r"Find $\dfrac{1}{2}$ of 4.", "answer": 2}]
    test = [*rows(2, start=1000), {"question": r"find \frac{1}{2} of 4.", "answer": 2}]
    with pytest.raises(DataError, match=r"1 problems stand in both .*\(row 3 is row 8\)"):
        load(write(train), test_path=write(test, "test.jsonl"))


@pytest.mark.parametrize(
    ("made", "settings", "error", "message"),
    [
        ([], {}, DataError, "has no rows"),
        ([{"question": "x", "answer": ""}], {}, DataError, r"no problem is left .*row 1: 'answer' is blank"),
        ([{"question": "x", "answer": "yes"}], {}, DataError, r"1 left out by .*drop_yes_no"),
        (
            [{"question": "x", "answer": 1}],
            {"difficulty_min": 3.0},
            DataError,
            r"no row has a level \(level or difficulty\)",
        ),
        (
            [{"question": "x", "answer": 7}, {"question": "y", "answer": 7}],
            {},
            DataError,
            "all 2 problems .* answer '7'",
        ),
        (
            [{"Frage": "x", "answer": 7}],
            {},
            ConfigError,
            r"no column for the question: .*found Frage, answer: set task",
        ),
        ([{"Problem": "x", "answer": 7}], {}, ConfigError, r"did you mean 'Problem'\?\): set task\.question_field"),
        ([{"question": "x", "answer": 7}], {"answer_field": "answers"}, ConfigError, r"did you mean 'answer'\?"),
    ],
)
def test_data_that_cannot_be_used_is_told_in_one_line(write, made, settings, error, message):
    with pytest.raises(error, match=message) as caught:
        load(write(made), **settings)
    assert "\n" not in str(caught.value)


def test_columns_can_be_mapped(write):
    data = load(
        write([{"Frage": f"x{n}", "Antwort": n} for n in range(5)]), question_field="Frage", answer_field="Antwort"
    )
    assert questions(data.train, data.dev, data.test) == {f"x{n}" for n in range(5)}


def test_a_local_file_takes_the_place_of_a_named_data_set(write):
    hub_shape = [{"question": f"How many, {n}?", "answer": f"It is so.\n#### {n}"} for n in range(5)]
    data = load(write(hub_shape), name="gsm8k")
    assert {problem.gold for split in data.splits.values() for problem in split} == {"0", "1", "2", "3", "4"}
    assert {problem.verifier for problem in data.train} == {"numeric"}
    assert {problem.task for problem in data.train} == {"gsm8k"}
    math = load(
        write([{"problem": f"p{n}", "solution": rf"So \boxed{{{n}}}", "level": "Level 2"} for n in range(5)]),
        name="math",
    )
    assert {problem.gold for problem in math.train} <= {"0", "1", "2", "3", "4"}
    assert {problem.verifier for problem in math.train} == {"math"}
    assert {problem.level for problem in math.train} == {2.0}
    svamp = load(
        write([{"question_concat": f"Body. Q{n}?", "Question": "Q?", "Answer": n} for n in range(5)]), name="svamp"
    )
    assert "Body. Q3?" in questions(*svamp.splits.values())


def test_math500_is_a_test_split_alone(write):
    data = load(write(rows(5)), name="math500")
    assert (len(data.train), len(data.dev), len(data.test)) == (0, 0, 5)


def test_the_verifier_can_be_chosen(write):
    assert {problem.verifier for problem in load(write(rows(5)), verifier="exact").train} == {"exact"}
    assert {problem.verifier for problem in load(write(rows(5))).train} == {"math"}


def test_countdown_is_generated_and_refuses_settings_that_would_do_nothing():
    data = load_task(TaskSettings(max_train=10))
    assert len(data.train) == 10
    assert not questions(data.train) & questions(data.dev, data.test)
    with pytest.raises(ConfigError, match=r"task\.dev_share is 0\.3, but countdown-lite is generated"):
        load_task(TaskSettings(dev_share=0.3))
    with pytest.raises(ConfigError, match=r"task\.verifier is 'math', but countdown-lite is generated"):
        load_task(TaskSettings(verifier="math"))


def test_hub_settings_beside_a_file_or_a_named_task_are_refused(write):
    with pytest.raises(ConfigError, match=r"task\.hub_split is 'test', but the problems are read from"):
        load(write(rows(5)), hub_split="test")
    with pytest.raises(ConfigError, match=r"task\.hub_config is 'socratic', but gsm8k knows its own"):
        load_task(TaskSettings(name="gsm8k", hub_config="socratic"))


def test_a_test_share_beside_a_test_file_is_refused(write):
    with pytest.raises(ConfigError, match=r"task\.test_share is 0\.2, but the test split is .*test\.jsonl"):
        load(write(rows(5)), test_path=write(rows(3, 100), "test.jsonl"), test_share=0.2)


def test_a_data_set_that_cannot_be_reached_is_told_at_once(monkeypatch):
    def refused(*args, **kwargs):
        raise OSError("no network here")

    monkeypatch.setattr(socket, "create_connection", refused)
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    assert not hub.hub_is_reachable()
    with pytest.raises(DataError, match=r"'ChilleD/SVAMP' cannot be reached \(no network.*set task\.path") as caught:
        load_task(TaskSettings(name="svamp"))
    assert "\n" not in str(caught.value)


def test_long_prompts_are_dropped_and_named():
    problems = [Problem(str(n), "x" * n, "1", "t", "math") for n in (3, 5, 7)]
    kept, dropped = drop_long(problems, lambda problem: len(problem.question), 5)
    assert [problem.id for problem in kept] == ["3", "5"]
    assert [row.reason for row in dropped] == ["the prompt of problem 7 has 7 tokens, and 5 fit"]


def test_a_long_prompt_is_named_by_its_row(write):
    data = load(write(rows(9)))
    (problem, *_) = data.train
    _, (dropped,) = drop_long([problem], lambda problem: 9, 8, origins=data.origins)
    # question n of rows() stands in row n + 1
    assert problem.question == f"What is {dropped.number - 1} + 1?"
    (line,) = [line for line in summary_lines(replace(data, bad_rows=(dropped,))) if "dropped" in line]
    assert line == f"  dropped: row {dropped.number} of {data.source}: {dropped.reason}"


def test_a_prompt_of_one_token_too_many_and_a_megabyte_long_one_are_named_alike():
    problems = [Problem(str(n), "x " * n, "1", "t", "math") for n in (10, 11, 500_000)]
    kept, dropped = drop_long(problems, lambda problem: len(problem.question.split()), 10)
    assert [problem.id for problem in kept] == ["10"]
    assert [row.reason.split(" has ")[1] for row in dropped] == [
        "11 tokens, and 10 fit",
        "500000 tokens, and 10 fit",
    ]


@needs_shared
@pytest.mark.parametrize(
    ("name", "path", "test_path", "num_rows", "bad"),
    [
        ("gsm8k", "gsm8k_train", "gsm8k_test", 7473 + 1319, []),
        # two blank answers, and one question that stands there with two answers
        ("math", "math_train_answers_only", "math500", 7500 + 500, [1228, 5342, 5344]),
        ("svamp", "svamp", None, 1000, []),
    ],
)
def test_every_row_of_a_real_file_is_accounted_for(name, path, test_path, num_rows, bad):
    file = {key: str(SHARED / f"{stem}.jsonl.gz") for key, stem in (("path", path), ("test_path", test_path)) if stem}
    data = load_task(TaskSettings(name=name, **file))
    num_kept = sum(len(split) for split in data.splits.values())
    assert num_kept + len(data.bad_rows) + data.num_duplicates + data.num_filtered == num_rows
    assert [row.number for row in data.bad_rows] == bad


def test_a_test_file_alone_is_measured_whole(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(f'{{"question": "q{i}", "answer": "{i}"}}\n' for i in range(20)))
    data = load_task(TaskSettings(name="custom", test_path=str(path)))
    assert (len(data.train), len(data.dev), len(data.test)) == (0, 0, 20)
