from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest


@pytest.fixture
def write(tmp_path):
    def written(rows, name="data.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return written


def _rows(count, start=0):
    return [{"question": f"What is {n} + 1?", "answer": n + 1, "level": 3} for n in range(start, start + count)]


def test_the_list_names_every_task_with_its_source_and_verifier(agon, capsys):
    assert agon("data", "list") == 0
    shown = capsys.readouterr().out
    assert "gsm8k: " in shown
    assert "from openai/gsm8k; verifier numeric; splits train/dev/test; MIT" in shown
    assert agon("data", "list", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert {"countdown-lite", "math500"} <= {task["name"] for task in document["tasks"]}
    assert "reasoning-gym/gcd" in document["families"]
    assert "reasoning-gym/countdown" in document["left_out"]


def test_show_prints_problems_as_they_are_asked_with_row_level_and_gold(agon, write, capsys):
    path = write([*_rows(5), {"question": "x"}])
    assert agon("data", "show", path, "--n", "2") == 0
    shown = capsys.readouterr().out
    assert "dropped: row 6" in shown
    assert shown.count("What is ") == 2
    assert "level 3, verifier math]" in shown
    assert "gold: " in shown


def test_show_as_json_is_one_document(agon, write, capsys):
    assert agon("data", "show", write(_rows(5)), "--n", "9", "--split", "train", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert {problem["split"] for problem in document["problems"]} == {"train"}
    assert len(document["problems"]) == document["counts"]["train"]
    assert all(problem["gold"] == str(problem["row"]) for problem in document["problems"])


def test_a_file_of_programs_is_read_as_such_without_a_setting(agon, write, capsys):
    rows = [
        {"prompt": f"Add {n}.", "test_list": [f"assert f(1) == {n + 1}"], "code": f"def f({n * chr(120)}): return 0"}
        for n in (3, 4)
    ]
    path = write([*rows, {"prompt": "Same.", "test_list": ["assert f(1) == 1"], "code": "def f(x): return x"}])
    assert agon("data", "show", path) == 0
    assert capsys.readouterr().out.count("verifier code]") == 3
    assert agon("data", "check", path, "--json") == 1
    document = json.loads(capsys.readouterr().out)
    # the programs of the first two rows do not add
    assert [(one["kind"], one["at"]["row"]) for one in document["findings"]] == [("misjudged", 1), ("misjudged", 2)]
    assert agon("data", "check", path, "--set", "task.answer_field=code") == 2
    assert 'set task.verifier and task.answer_style to "code"' in capsys.readouterr().err


def test_a_clean_file_ends_with_0_and_a_faulty_one_with_1(agon, write, capsys):
    assert agon("data", "check", write(_rows(20))) == 0
    assert capsys.readouterr().out.endswith("clean\n")
    assert agon("data", "check", write([*_rows(20), *_rows(1)], "twice.jsonl")) == 1
    shown = capsys.readouterr().out
    assert "FAULT duplicate: 1 " in shown
    assert "row 21 of " in shown
    assert "the same question as row 1" in shown


def test_check_as_json_is_one_document_with_every_finding(agon, write, capsys):
    evaluation = write(_rows(3, start=10), "evaluation.jsonl")
    assert agon("data", "check", write(_rows(20)), "--against", evaluation, "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["counts"] == {"leak": 3}
    assert document["against"] == {str(evaluation): 3}
    leak = document["findings"][0]
    assert (leak["at"]["row"], leak["other"]["row"], leak["other"]["text"]) == (11, 1, "What is 10 + 1?")


def test_a_named_task_is_read_from_a_file_by_its_own_columns(agon, write, capsys):
    path = write([{"question": f"q{n}", "answer": f"so\n#### {n}"} for n in range(5)])
    assert agon("data", "show", "gsm8k", "--set", f"task.path={json.dumps(str(path))}", "--n", "1", "--json") == 0
    problem = json.loads(capsys.readouterr().out)["problems"][0]
    assert problem["verifier"] == "numeric"
    assert problem["gold"] == problem["question"].removeprefix("q")


@pytest.mark.parametrize("words", [["mbpp"], [None, "--set", "task.verifier=code"], [None, "--set", "task.name=mbpp"]])
def test_code_problems_are_shown_without_naming_their_answer_style(agon, write, capsys, words):
    row = {"prompt": "Double it.", "test_list": ["assert double(2) == 4"], "code": "def double(x): return 2 * x"}
    path = write([row, row | {"prompt": "Double a number.", "code": "def double(x): return x + x"}])
    task = [words[0] or path, *words[1:], *(["--set", f"task.path={json.dumps(str(path))}"] if words[0] else [])]
    assert agon("data", "show", *task, "--json", "--n", "1") == 0
    problem = json.loads(capsys.readouterr().out)["problems"][0]
    assert problem["verifier"] == "code"
    assert problem["gold"].startswith("def double")


def test_a_tokenizer_counts_the_questions(agon, write, capsys, tmp_path):
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit

    tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    long = {"question": "one two three four five six", "answer": 77}
    words = ["data", "check", write([*_rows(9), long]), "--model", tmp_path, "--set", "task.max_prompt_tokens=5"]
    # Long questions are left out at load: told, and no fault of the data.
    assert agon(*words) == 0
    assert "6 tokens; task.max_prompt_tokens is 5" in capsys.readouterr().out
    (tmp_path / "empty").mkdir()
    assert agon(*words[:3], "--model", tmp_path / "empty") == 2
    assert "tokenizer.json cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["data"], 2, "list|show|check"),
        (["data", "show", "gsm9k"], 2, "did you mean 'gsm8k'"),
        (["data", "check", "/no/such.jsonl"], 2, "/no/such.jsonl"),
        (["data", "check", "reasoning-gym/countdown"], 2, "left out"),
        (["data", "show", "countdown-lite", "--n", "-1"], 2, "--n is -1"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_line(agon, capsys, words, code, told):
    assert agon(*words) == code
    error = capsys.readouterr().err.strip()
    assert told in error
    assert "\n" not in error


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"prompt_text": "x", "answer": 1}, ["no column for the question", "found prompt_text, answer"]),
        ({"problems": "x", "answer": 1}, ["did you mean 'problems'", "task.question_field"]),
    ],
)
def test_a_renamed_column_is_told_within_seconds_and_without_torch(write, row, words):
    path = write([row])
    code = (
        "import sys\n"
        "from agon.cli.main import main\n"
        f"code = main(['data', 'check', {str(path)!r}])\n"
        "assert 'torch' not in sys.modules\n"
        "sys.exit(code)\n"
    )
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    # Two seconds on an idle machine; the limit guards against loading torch or asking the Hub.
    assert time.monotonic() - start < 20
    assert done.returncode == 2
    for word in (*words, "data.jsonl"):
        assert word in done.stderr


def test_training_never_sees_a_gold_that_cannot_be_read(agon, write, tmp_path, small):
    rows = [{"question": f"a {n % 15 + 1} b {n // 15 + 1} c 1 =3", "answer": n} for n in range(40)]
    bad = [{"question": f"a {n} b 9 c 9 =9", "answer": gold} for n, gold in enumerate(["see figure", "3 +"], 1)]
    path = write([*rows, *bad])
    task = ["--set", "task.name=custom", "--set", f"task.path={json.dumps(str(path))}"]
    out = tmp_path / "run"
    assert agon("train", "quickstart-agon", "--out", out, *small, *task, "--set", "train.steps=1") == 0
    account = json.loads((out / "data.json").read_text())
    assert sorted(row["number"] for row in account["dropped_rows"]) == [41, 42]
    assert all("the answer" in row["reason"] for row in account["dropped_rows"])
    assert sum(account["counts"].values()) == 40


def test_settings_that_data_does_not_use_are_refused(agon, write, capsys):
    assert agon("data", "check", write(_rows(9)), "--set", "train.steps=2") == 2
    assert "only settings of the tables task and verifier" in capsys.readouterr().err


def test_a_tokenizer_out_of_reach_is_told_in_one_line(agon, write, capsys, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert agon("data", "check", write(_rows(9)), "--model", "owner/absent") == 2
    lines = capsys.readouterr().err.splitlines()
    assert len([line for line in lines if line.startswith("agon: ")]) == 1
    assert "the Hub cannot be reached" in lines[-1]
