import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from agon.config import Settings, TaskSettings
from agon.datacheck.check import check_data
from agon.errors import ConfigError, DataError

LONG = "Tom has {} marbles and buys seven more every day of the week except on Sunday; how many has he after {} weeks?"


@pytest.fixture
def write(tmp_path):
    def written(rows, name="x.jsonl"):
        path = tmp_path / name
        path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
        return str(path)

    return written


def rows(count, start=0):
    return [{"question": f"What is {n} + 1?", "answer": n + 1} for n in range(start, start + count)]


def check(path, *, against=None, columns=(), count_tokens=None, **task):
    settings = Settings(task=TaskSettings(**{"name": "custom", "path": path, **task}))
    sets = {name: TaskSettings(name="custom", path=name) for name in against or ()}
    return check_data(settings, against=sets, question_columns=columns, count_tokens=count_tokens)


def found(report):
    """Kind, row and the row it collides with of every finding."""
    return [(one.kind, one.at.row if one.at else None, one.other.row if one.other else None) for one in report.findings]


def test_a_good_file_is_clean(write):
    report = check(write(rows(30)))
    assert (report.is_clean, report.findings, report.counts) == (True, (), {})
    assert (report.num_rows, report.num_problems, report.num_unique) == (30, 30, 30)
    assert sum(report.splits.values()) == 30


def test_ten_problems_a_hundred_times_are_ten_unique_of_a_thousand(write):
    ten = [{"question": f"Solve  for x: x = {n}", "answer": n} for n in range(10)]
    shouted = [{"question": f"SOLVE for x:  X = {n} ", "answer": n} for n in range(10)]
    report = check(write((ten + shouted) * 50))
    assert (report.num_rows, report.num_unique) == (1000, 10)
    assert report.counts == {"duplicate": 990}
    assert report.findings[0].reason == "the same question as row 1, in another spelling"
    assert report.findings[10].reason == "the same question as row 1"


def test_rows_that_are_no_problem_are_listed_by_number_with_the_reason(write):
    bad = [
        '{"question": "q", "answer": NaN}',
        {"question": "half \ud800 pair", "answer": 1},
        {"question": "r", "answer": ""},
        "{cut",
        {"question": "s", "answer": [1]},
    ]
    report = check(write([*rows(3), *bad]))
    told = {one.at.row: one.reason for one in report.findings if one.kind == "unusable"}
    assert list(told) == [4, 5, 6, 7, 8]
    assert told[4] == "holds NaN, which is no JSON number"
    assert "U+D800" in told[5]
    assert "blank" in told[6]
    assert not report.is_clean


def test_a_gold_that_cannot_be_read_is_listed(write):
    golds = ["see figure", "$$", r"\frac{1}{", r"\frac{1}{2}", "x+1"]
    report = check(write([{"question": f"q{n}", "answer": gold} for n, gold in enumerate(golds)]))
    assert {one.at.row for one in report.findings if one.kind in ("unusable", "unreadable")} == {1, 2, 3}


def test_a_gold_that_its_own_verifier_calls_wrong_is_listed(write):
    problems = [
        {"question": "a", "answer": "12 + 7", "numbers": [12, 7], "target": 19},
        {"question": "b", "answer": "12 - 7", "numbers": [12, 7], "target": 19},
    ]
    report = check(write(problems), verifier="expression")
    assert found(report) == [("misjudged", 2, None)]
    assert report.findings[0].reason.startswith("the answer '12 - 7' is judged wrong")


@pytest.mark.skipif(find_spec("reasoning_gym") is None, reason="reasoning-gym, an extra, is not installed")
def test_what_a_generator_draws_twice_is_no_fault():
    report = check_data(Settings(task=TaskSettings(name="reasoning-gym/gcd", num_generated=3000)))
    # of the numbers that the family draws from, pairs come again
    assert report.counts == {"redrawn": report.num_problems - report.num_unique}
    assert report.counts["redrawn"] > 0
    assert report.is_clean


def test_the_same_question_with_another_answer_is_a_conflict_unless_the_answers_are_equal(write):
    twice = [{"question": "What is 2 + 1?", "answer": "6/2"}, {"question": "What is 0 + 1?", "answer": 5}]
    report = check(write([*rows(5), *twice]))
    assert found(report) == [("duplicate", 6, 3), ("conflict", 7, 1)]
    assert report.findings[1].reason == "the same question as row 1, but the answer is '5', there '1'"


def test_a_test_problem_in_train_and_one_that_stands_in_the_test_twice_are_told_with_both_rows(write):
    train = [*rows(7), {"question": r"Find $\dfrac{1}{2}$ of 4.", "answer": 2}]
    test = [*rows(2, start=1000), {"question": r"find \frac{1}{2} of 4.", "answer": 2}, *rows(1, 50), *rows(1, 1000)]
    report = check(write(train), test_path=write(test, "test.jsonl"))
    assert sorted(found(report)) == [("duplicate", 5, 1), ("leak", 8, 3)]
    leak = next(one for one in report.findings if one.kind == "leak")
    assert (leak.at.text, leak.other.text) == (r"Find $\dfrac{1}{2}$ of 4.", r"find \frac{1}{2} of 4.")
    assert leak.reason == "the same text as row 3 (the test split)"


def test_planted_copies_of_an_evaluation_set_are_found_with_both_texts(write):
    original = LONG.format(12, 3)
    planted = [
        original.replace("12", "$12$").replace(";", ","),  # style
        original.upper(),  # case
        original.replace("Tom", "Ann"),  # a person at the start: one run of 13 words is lost
        "Find the value of x.",  # short and common
    ]
    evaluation = write(
        [{"question": original, "answer": 30}, {"question": "Find the value of x. Then y.", "answer": 1}], "e.jsonl"
    )
    report = check(
        write([*rows(5), *[{"question": text, "answer": n} for n, text in enumerate(planted)]]), against=[evaluation]
    )
    of_set = [one for one in report.findings if evaluation in one.reason]
    kinds = {one.at.row: one.kind for one in of_set}
    assert kinds[6] == "near-leak"
    assert kinds.keys() <= {6, 7, 8}
    assert all(one.other.text == original for one in of_set)
    assert report.against == {evaluation: 2}


def test_an_evaluation_set_without_a_problem_is_refused(write):
    with pytest.raises(DataError, match=r"no problem to compare with; row 1: 'question' is None"):
        check(write(rows(3)), against=[write([{"question": None, "answer": 1}], "e.jsonl")])


def test_an_evaluation_set_needs_nothing_but_its_questions(write):
    questions = [{"problem": "what is 1 + 1?"}, {"problem": "What is 9 + 9?", "answer": None}]
    report = check(write(rows(3)), against=[write(questions, "e.jsonl")])
    assert found(report) == [("leak", 2, 1)]
    with pytest.raises(ConfigError, match=r"found Frage: name it with --against-question"):
        check(write(rows(3)), against=[write([{"Frage": "What is 2 + 1?"}], "f.jsonl")])
    report = check(write(rows(3)), against=[str(write([{"Frage": "What is 2 + 1?"}], "f.jsonl"))], columns=["Frage"])
    assert found(report) == [("leak", 3, 1)]


def test_an_evaluation_set_of_programs_is_known_by_its_columns(write):
    programs = [
        {"prompt": f"Add {n}.", "test_list": [f"assert f(1) == {n + 1}"], "code": f"f = lambda x: x + {n}"}
        for n in range(4)
    ]
    report = check(write(programs), verifier="code", answer_style="code", against=[write(programs[2:3], "e.jsonl")])
    assert found(report) == [("leak", 3, 1)]


def test_an_evaluation_set_that_cannot_be_reached_is_replaced_by_a_file(write, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    settings = Settings(task=TaskSettings(name="custom", path=write(rows(3))))
    with pytest.raises(DataError, match=r"openai_humaneval.*: give a local file in place of the name: --against FILE"):
        check_data(settings, against={"humaneval": TaskSettings(name="humaneval")})


def test_guessable_and_dominant_answers_are_told_with_their_share(write):
    made = [*rows(4), *[{"question": f"Is {n} odd?", "answer": "yes"} for n in range(12)]]
    report = check(write(made), drop_yes_no=False)
    assert report.num_guessable == 12
    assert report.counts["guessable"] == 12
    # 12 of 16
    assert report.to_json()["guessable"] == {"count": 12, "share": 0.75}
    assert [one.reason for one in report.findings if one.kind == "dominant"] == [
        "12 of 16 problems have the answer 'yes'"
    ]


def test_guessable_answers_alone_are_no_fault_since_they_are_dropped_at_load(write):
    report = check(write([*rows(30), {"question": "Is it?", "answer": "no"}]))
    assert report.counts == {"guessable": 1}
    assert report.is_clean
    assert report.num_filtered == 1


def test_a_question_of_a_megabyte_is_named_and_shortened(write):
    report = check(write([*rows(3), {"question": "x" * 1_000_000, "answer": 5}]))
    assert found(report) == [("long", 4, None)]
    assert report.findings[0].reason.startswith("1,000,000 characters, 250,000 tokens, counted as 4 characters each")
    assert len(report.findings[0].at.text) < 3_000


def test_a_tokenizer_counts_exactly(write):
    five = {"question": "one two three four five", "answer": 1}
    for limit, expected in ((5, []), (4, [("long", 4, None)])):
        report = check(write([*rows(3), five]), count_tokens=lambda text: len(text.split()), max_prompt_tokens=limit)
        # the others have 5 words as well: What is 0 + 1? -> 5
        assert [one for one in found(report) if one[1] == 4] == expected


PAGE = (Path(__file__).parents[3] / "docs" / "data.md").read_text(encoding="utf-8")


def test_each_row_that_the_page_shows_of_code_problems_is_one_whose_program_passes(write):
    section = PAGE.partition("## Your own code problems")[2].partition("\n## ")[0]
    shown = [line.strip() for line in section.splitlines() if line.startswith("    {")]
    assert len(shown) == 9
    report = check(write(shown), verifier="code", answer_style="code")
    assert report.num_problems == 9
    # All that two of them have in common is the sentence about standard input.
    assert report.counts.keys() <= {"similar"}


def test_countdown_is_clean_in_its_own_splits():
    report = check_data(Settings())
    assert report.is_clean
    assert report.splits == {"train": 1929, "dev": 200, "test": 290}


def test_a_file_without_rows_is_refused(write):
    with pytest.raises(DataError, match="has no rows"):
        check(write([]))
