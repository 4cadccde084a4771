from __future__ import annotations

import gzip
import io
import json
import re
import shutil
import subprocess
import sys

import pytest


def told(capsys):
    """Return the one line of error."""
    said = capsys.readouterr().err.strip()
    assert "Traceback" not in said
    assert said.startswith("agon")
    assert len(said.splitlines()) == 1
    return said


def judged(agon, capsys, *words, code=0):
    assert agon("verify", *words, "--json") == code
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        (["math", "--gold", "1/2", "--answer", "0.5"], "correct"),
        (["math", "--gold", r"x^2-1", "--answer", r"(x-1)(x+1)"], "correct"),
        (["math", "--gold", "42", "--answer", "43"], "wrong"),
        (["math", "--gold", "42", "--completion", r"first \boxed{1}, then \boxed{42}"], "correct"),
        (["math", "--gold", "42", "--completion", "42"], "unparsed"),
        (["math", "--gold", "42", "--completion", "<answer>42</answer>", "--answer-style", "tags"], "correct"),
        (["math", "--gold", "42", "--completion", "The answer is 42.", "--answer-style", "stated"], "correct"),
        (["numeric", "--gold", "42", "--answer", "42 apples"], "correct"),
        (["exact", "--gold", "Paris", "--answer", "paris."], "correct"),
        (["exact", "--gold", "Paris", "--answer", "Rome"], "wrong"),
    ],
)
def test_one_answer_gets_its_verdict_and_exit_code_0_whatever_it_is(agon, capsys, words, verdict):
    result = judged(agon, capsys, *words)
    assert result["verdict"] == verdict
    assert result["score"] == float(verdict == "correct")
    assert {"reason", "gold", "answer"} <= result.keys()


def test_a_person_reads_the_verdict_the_reason_and_what_was_compared(agon, capsys):
    assert agon("verify", "math", "--gold", r"\boxed{42}", "--completion", r"so \boxed{42.0}") == 0
    assert capsys.readouterr().out == "correct: equal numbers\n  gold    42\n  answer  42.0\n"


def test_a_completion_is_read_from_standard_input(agon, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("é \\boxed{42}\n".encode())))
    assert judged(agon, capsys, "math", "--gold", "42", "--completion", "-")["verdict"] == "correct"


@pytest.mark.parametrize(("stdin", "words"), [(None, "standard input is closed"), (b"\xff", "not UTF-8 at byte 0")])
def test_standard_input_that_cannot_be_read_is_told_in_one_line(agon, capsys, monkeypatch, stdin, words):
    monkeypatch.setattr("sys.stdin", stdin and io.TextIOWrapper(io.BytesIO(stdin)))
    assert agon("verify", "math", "--gold", "42", "--completion", "-") == 1
    assert words in told(capsys)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "WHAT"),
        (["maths"], "maths"),
        (["math"], "--gold"),
        (["math", "--gold", "1"], "--answer"),
        (["math", "--gold", "", "--answer", "1"], "it is empty"),
        (["math", "--gold", "1", "--answer", "1", "--completion", "1"], "--completion"),
        (["math", "--gold", "1", "--answer", "1", "--tier", "core"], "--tier"),
        (["math", "--gold", "1", "--answer", "1", "--answer-style", "boxed"], "--answer-style"),
        (["math", "--pairs", "x.jsonl", "--gold", "1"], "--gold"),
        (["math", "--pairs", "no-such-file.jsonl"], "no-such-file.jsonl"),
        (["math", "--gold", "1", "--answer", "1", "--timeout", "0"], "timeout_s"),
        (["math", "--gold", "1", "--answer", "1", "--timeout", "nan"], "timeout_s"),
        (["math", "--gold", "1", "--answer", "1", "--set", "train.steps=1"], "train.steps"),
        (["math", "--gold", "1", "--answer", "1", "--set", "verifier.worker=1"], "did you mean 'workers'"),
        (["numeric", "--gold", "many", "--answer", "1"], "--gold"),
    ],
)
def test_what_cannot_be_asked_is_a_usage_error_in_one_line(agon, capsys, words, said):
    assert agon("verify", *words) == 2
    assert said in told(capsys)


def _pairs(tmp_path, rows):
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


PAIRS = [
    {"id": "a", "gold": "1/2", "pred": "0.5", "equal": True, "tier": "core", "tags": ["number"]},
    {"id": "b", "gold": "3", "pred": "3", "equal": False, "tier": "core", "tags": ["number"]},
    {"id": "c", "gold": "3", "completion": r"\boxed{4}", "equal": True, "tier": "hard"},
    {"id": "d", "gold": "3", "completion": r"\boxed{4}", "equal": False, "tier": "hard"},
]


def test_labelled_rows_are_counted_by_kind_tier_and_tag(agon, tmp_path, capsys):
    result = judged(agon, capsys, "math", "--pairs", _pairs(tmp_path, PAIRS))
    counts = {"n": 4, "agree": 2, "false_positives": 1, "false_negatives": 1, "timeouts": 0, "errors": 0}
    assert {name: result[name] for name in counts} == counts
    assert result["by_kind"]["answer"]["false_positives"] == 1
    assert result["by_kind"]["completion"]["false_negatives"] == 1
    assert result["by_tier"]["core"]["n"] == 2
    assert result["by_tag"]["number"]["agree"] == 1
    assert [(row["fault"], row["id"]) for row in result["disagreements"]] == [
        ("false positive", "b"),
        ("false negative", "c"),
    ]
    core = judged(agon, capsys, "math", "--pairs", _pairs(tmp_path, PAIRS), "--tier", "core")
    assert (core["n"], core["left_out"]) == (2, 2)


def test_a_person_reads_which_rows_disagree_and_which_could_not_be_judged(agon, tmp_path, capsys):
    rows = [*PAIRS, "{broken", {"gold": "1", "pred": "1", "equal": "yes"}]
    assert agon("verify", "math", "--pairs", _pairs(tmp_path, rows)) == 1
    said = capsys.readouterr().out
    # Clopper-Pearson of 2 in 4, from its table
    assert "2 of 4 rows agree, 0.5000 [0.0676, 0.9324]" in said
    assert "false positives 1, false negatives 1, time-outs 0, errors 0" in said
    assert "rows that could not be judged: 2" in said
    assert "row 5: not JSON" in said
    assert "row 6: 'equal' is 'yes', where true or false is wanted" in said
    assert "row 2 (b)  correct" in said
    assert "row 3 (c)  wrong" in said


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        ("", 1, "pairs.jsonl"),
        ("no json\n", 1, "pairs.jsonl"),
        ('{"Gold": "1", "pred": "1", "equal": true}\n', 2, "did you mean 'Gold'"),
        ('{"gold": "1", "pred": "1", "completion": "1", "equal": true}\n', 1, "both 'pred' and 'completion'"),
        ('{"gold": "1", "pred": "1", "equal": 1}\n', 1, "'equal' is 1"),
    ],
)
def test_a_file_that_holds_no_pairs_is_told_in_one_line(agon, tmp_path, capsys, content, code, said):
    (tmp_path / "pairs.jsonl").write_text(content)
    assert agon("verify", "math", "--pairs", tmp_path / "pairs.jsonl") == code
    assert said in told(capsys)


def assert_no_torch(words, *, code=0):
    script = (
        "import sys\n"
        "from agon.cli.main import main\n"
        f"assert main(['verify', *{words!r}]) == {code}\n"
        "assert not {'torch', 'transformers', 'peft', 'datasets'} & set(sys.modules), sorted(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)


def test_checking_answers_and_runs_loads_no_torch(trained):
    assert_no_torch(["math", "--gold", "x+y", "--answer", "y+x"])
    assert_no_torch(["run", str(trained)])


def test_a_runs_own_verdicts_hold_when_checked_again(agon, trained, capsys):
    result = judged(agon, capsys, "run", trained)
    assert result["changed"] == 0
    # three saved steps of 4 problems x 4 matches, each a draft and a challenge
    assert result["checked"] >= 3 * 16 * 2
    assert result["outcomes"]["stored"] == result["outcomes"]["now"]
    one = judged(agon, capsys, "run", trained, "--step", "2")
    assert (one["files"], one["checked"]) == (1, 32)


def test_checks_that_took_no_time_are_not_told_as_slow(agon, trained, capsys, monkeypatch):
    monkeypatch.setattr("agon.cli.verify_run._SHORTEST_S", 60.0)
    assert agon("verify", "run", trained, "--step", "0") == 0
    said = capsys.readouterr().out
    assert "no check took a millisecond" in said
    assert "slowest" not in said


def test_a_person_reads_what_changed_in_a_run(agon, trained, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    path = run / "matches" / "step-000002.jsonl.gz"
    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    rows[0]["challenge"]["verdict"]["outcome"] = "error"
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    (run / "matches" / "step-000000.jsonl.gz").write_bytes(b"damaged")
    assert agon("verify", "run", run, "--step", "0", "--step", "2") == 1
    said = capsys.readouterr().out
    assert "1 of 32 stored completions are judged otherwise (2 files of 1 run)" in said
    assert re.search(r"error -> (correct|wrong|unparsed|truncated): 1", said)
    assert "step-000002.jsonl.gz, match 1, challenge" in said
    assert "damaged: " in said
    assert "step-000000.jsonl.gz" in said


def test_a_step_or_folder_that_is_not_there_is_told_in_one_line(agon, trained, capsys):
    assert agon("verify", "run", trained, "--step", "99") == 1
    assert "step 99" in told(capsys)
    assert agon("verify", "run", trained, "--step", "1") == 1
    # saved are the even steps of four, and the last
    assert "no matches of step 1: choose of --step 0, 2, 3" in told(capsys)
    assert agon("verify", "run", "/no/such/run") == 1
    assert "/no/such/run" in told(capsys)


DOUBLE = {
    "id": "double",
    "prompt": "Double a number.",
    "test_list": ["assert double(2) == 4", "assert double(-1) == -2"],
    "good": "def double(n):\n    return 2 * n\n",
    "bad": "import os\nos._exit(0)\n",
}


@pytest.fixture
def task(tmp_path):
    path = tmp_path / "task.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (DOUBLE, DOUBLE | {"id": "none", "test_list": []})))
    return path


@pytest.mark.parametrize(("field", "verdict"), [("good", "correct"), ("bad", "wrong")])
def test_a_program_gets_its_verdict_by_the_tests_of_the_problem(agon, task, tmp_path, capsys, field, verdict):
    program = tmp_path / "program.py"
    program.write_text(DOUBLE[field])
    result = judged(agon, capsys, "code", "--problem", task, "--row", "1", "--program", program)
    assert (result["verdict"], result["score"]) == (verdict, float(verdict == "correct"))
    assert agon("verify", "code", "--problem", task, "--id", "double", "--program", program) == 0
    assert capsys.readouterr().out.startswith(f"{verdict}: ")


def test_a_program_is_read_from_standard_input(agon, task, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(DOUBLE["good"].encode())))
    result = judged(agon, capsys, "code", "--problem", task, "--row", "1", "--program", "-")
    assert result["verdict"] == "correct"


def test_the_programs_of_a_task_are_counted_against_what_is_expected_of_them(agon, task, capsys):
    good = judged(agon, capsys, "code", "--task", task, "--solutions", "good", code=1)
    assert (good["n"], good["agree"], good["outcomes"]) == (1, 1, {"correct": 1})
    assert [row["number"] for row in good["bad_rows"]] == [2]
    bad = judged(agon, capsys, "code", "--task", task, "--solutions", "bad", "--expect", "wrong", code=1)
    assert (bad["n"], bad["agree"], bad["false_positives"]) == (1, 1, 0)
    assert agon("verify", "code", "--task", task, "--solutions", "bad") == 1
    said = capsys.readouterr().out
    assert "0 of 1 rows agree" in said
    assert "row 1 (double)  wrong" in said


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "--problem"),
        (["--problem", "TASK"], 2, "--program"),
        (["--problem", "TASK", "--program", "no-such.py"], 1, "2 rows"),
        (["--problem", "TASK", "--row", "1", "--program", "no-such.py"], 2, "no-such.py"),
        (["--problem", "TASK", "--row", "2", "--program", "no-such.py"], 1, "row 2"),
        (["--problem", "TASK", "--row", "1", "--id", "double", "--program", "x.py"], 2, "--row"),
        (["--problem", "no-such.jsonl", "--program", "x.py"], 2, "no-such.jsonl"),
        (["--problem", "TASK", "--row", "1", "--program", "x.py", "--expect", "wrong"], 2, "--expect"),
        (["--task", "TASK"], 2, "--solutions"),
        (["--task", "TASK", "--solutions", "goood"], 2, "did you mean 'good'"),
        (["--task", "gsm8k", "--solutions", "good"], 2, "gsm8k"),
        (["--task", "TASK", "--solutions", "good", "--row", "1"], 2, "--row"),
        (["--task", "TASK", "--solutions", "good", "--row", "0"], 2, "--row"),
    ],
)
def test_code_that_cannot_be_checked_is_told_in_one_line(agon, task, capsys, words, code, said):
    assert agon("verify", "code", *(str(task) if word == "TASK" else word for word in words)) == code
    assert said in told(capsys)


def test_checking_code_loads_no_torch(task):
    words = ["code", "--task", str(task), "--solutions", "good"]
    assert_no_torch(words, code=1)
