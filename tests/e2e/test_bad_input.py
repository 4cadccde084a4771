from __future__ import annotations

import json
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest


def _one_line(capsys):
    """Return the one line of error; what a run said about its data before it may stand above."""
    told = capsys.readouterr().err.strip()
    assert "Traceback" not in told
    errors = [line for line in told.splitlines() if line.startswith("agon")]
    assert errors == told.splitlines()[-1:], told
    return errors[0]


@pytest.mark.parametrize(
    ("overrides", "code", "words"),
    [
        (["model.base=/no/such/folder"], 1, ["/no/such/folder"]),
        (["train.group_size=1"], 2, ["group_size is 1", "2 or more"]),
        (["train.problems_per_step=100000"], 2, ["100000", "training problems"]),
        (["rollout.max_draft_tokens=100000"], 2, ["100000", "max_draft_tokens"]),
        (["train.stepz=3"], 2, ["train.stepz", "did you mean 'steps'"]),
        (["model.device=cuda"], 2, ["model.device", "cuda"]),
        (["adapter.targets=['nothing']"], 1, ["nothing"]),
        (["tracking.backend=wandb"], 2, ["wandb", "pip install"]),
    ],
)
def test_what_cannot_be_used_is_told_in_one_line_and_leaves_nothing(agon, tmp_path, capsys, overrides, code, words):
    out = tmp_path / "run"
    sets = [word for override in overrides for word in ("--set", override)]
    assert agon("train", "quickstart-agon", "--out", out, *sets) == code
    told = _one_line(capsys)
    for word in words:
        assert word in told
    assert not out.exists()


def test_an_absent_hub_name_without_network_is_told_in_one_line(agon, tmp_path, capsys):
    assert agon("train", "quickstart-agon", "--out", tmp_path / "run", "--set", "model.base=nobody/nothing") == 1
    assert "nobody/nothing" in _one_line(capsys)
    assert not (tmp_path / "run").exists()


def _train_on(agon, path, out, *words):
    return agon(
        *(
            "train",
            "quickstart-agon",
            "--out",
            out,
            "--set",
            "task.name=custom",
            "--set",
            f"task.path={json.dumps(str(path))}",
        ),
        *words,
    )


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], ["no rows"]),
        ([{"question": f"a {i} b 2 c 1 =3", "answer": "3"} for i in range(40)], ["constant answer"]),
        ([{"frage": "1", "answer": "3"}], ["question", "frage"]),
    ],
    ids=["empty", "one class", "renamed column"],
)
def test_a_data_set_that_cannot_be_used_is_named(agon, tmp_path, capsys, rows, words):
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert _train_on(agon, path, tmp_path / "run") in (1, 2)
    told = _one_line(capsys)
    for word in (*words, "data.jsonl"):
        assert word in told
    assert not (tmp_path / "run").exists()


@pytest.fixture
def without_models(monkeypatch):
    def refused(*args, **kwargs):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("agon.match.session.load_base", refused)


def test_a_test_split_alone_is_not_trained_on(agon, tmp_path, capsys, without_models):
    path = tmp_path / "math500.jsonl"
    path.write_text("".join(json.dumps({"problem": f"{n} + 1", "answer": n + 1}) + "\n" for n in range(9)))
    words = ["train", "quickstart-agon", "--out", tmp_path / "run", "--set", "task.name=math500"]
    assert agon(*words, "--set", f"task.path={json.dumps(str(path))}") == 1
    assert "task math500 has a test split alone" in capsys.readouterr().err
    path.write_text(
        json.dumps({"problem": "x", "answer": 1}) + "\n" + json.dumps({"problem": "y", "answer": "see figure"})
    )
    words = ["train", "quickstart-agon", "--out", tmp_path / "run", "--set", "task.name=custom"]
    assert (
        agon(
            *words,
            "--set",
            f"task.path={json.dumps(str(path))}",
            "--set",
            "task.test_share=0.99",
            "--set",
            "task.dev_share=0",
        )
        == 1
    )
    said = capsys.readouterr().err
    assert "no training problem left (1 in the test split; 1 dropped, the last one because of row 2 of " in said
    assert "'see figure'" in said


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "the development split of custom is empty: choose with --direction a-b or b-a\n"),
        (["--split", "dev", "--direction", "a-b"], 1, "the dev split of custom is empty"),
        (["--protocol", "single", "--direction", "a-b"], 2, "choose with --adapter"),
    ],
)
def test_an_evaluation_that_cannot_be_is_refused_before_a_model_is_loaded(
    agon, trained, tmp_path, capsys, without_models, words, code, said
):
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps({"question": f"{n} + 1", "answer": n + 1}) + "\n" for n in range(9)))
    assert agon("eval", trained, "--task", path, *words) == code
    assert said in capsys.readouterr().err


def test_an_evaluation_without_a_place_for_it_is_refused_before_a_model_is_loaded(
    agon, trained, tmp_path, capsys, without_models
):
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    shutil.rmtree(run / "evaluations")
    (run / "evaluations").write_text("")
    assert agon("eval", run, "--direction", "a-b") == 1
    assert f"cannot write {run / 'evaluations'}" in _one_line(capsys)


def test_an_occupied_folder_is_not_written_into(agon, trained, capsys):
    assert agon("train", "quickstart-agon", "--out", trained) == 1
    assert "--resume" in _one_line(capsys)


def test_an_output_below_a_file_is_refused(agon, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert agon("train", "quickstart-agon", "--out", tmp_path / "file" / "run") == 1
    assert "file" in _one_line(capsys)


def test_a_run_folder_of_another_version_is_refused_with_the_remedy(agon, tmp_path, capsys):
    (tmp_path / "manifest.json").write_text(json.dumps({"format_version": 99, "versions": {"agon": "9.9"}}))
    for words in (
        ["eval", tmp_path],
        ["solve", tmp_path, "1 2 3 = 4"],
        ["report", tmp_path],
        ["train", "--resume", "--out", tmp_path],
    ):
        assert agon(*words) == 1
        assert "99" in _one_line(capsys)


@pytest.mark.parametrize(
    "words", [["eval", "/no/such/run"], ["solve", "/no/such/run", "x"], ["report", "/no/such/run"]]
)
def test_a_run_that_does_not_exist_is_named(agon, capsys, words):
    assert agon(*words) in (1, 2)
    assert "/no/such/run" in _one_line(capsys)


@pytest.mark.parametrize(
    "words",
    [
        ["--protocol", "single", "--direction", "a-b"],
        ["--protocol", "cascade", "--adapter", "a"],
        ["--protocol", "cascade", "--adapter", "base", "--direction", "b-a"],
        ["--protocol", "majority", "--drafts", "1"],
        ["--samples", "0"],
        ["--set", "evaluation.temperature=-1"],
        ["--protocol", "duel"],
    ],
)
def test_a_contradictory_evaluation_is_refused(agon, trained, capsys, words):
    assert agon("eval", trained, *words) == 2
    _one_line(capsys)


def test_a_problem_that_is_none_is_refused(agon, trained, capsys):
    assert agon("solve", trained, "what is this?") in (1, 2)
    assert "what is this?" in _one_line(capsys)


@pytest.mark.parametrize(
    "words",
    [["train", ""], ["train", "--out", ""], ["eval", ""], ["eval", "quickstart", "--label", " "], ["report", ""]],
)
def test_an_empty_argument_is_refused(agon, capsys, words):
    assert agon(*words) == 2
    assert "it is empty" in _one_line(capsys)


def test_a_label_that_cannot_be_filed_is_refused_before_anything_is_measured(agon, trained, capsys):
    assert agon("eval", trained, "--label", "../x") == 1
    assert "'../x'" in _one_line(capsys)
    assert agon("eval", "quickstart", "--label", "x") == 2
    assert "--label" in _one_line(capsys)


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"], ["--version"]])
def test_help_and_version_load_no_torch(words):
    code = (
        "import sys\n"
        "from agon.cli.main import main\n"
        "try:\n"
        f"    main({words!r})\n"
        "except SystemExit:\n"
        "    pass\n"
        "assert not {'torch', 'transformers', 'peft', 'datasets'} & set(sys.modules), sorted(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_report_loads_no_torch(trained, tmp_path):
    code = (
        "import sys\n"
        "from agon.cli.main import main\n"
        f"assert main(['report', {str(trained)!r}, '--out', {str(tmp_path / 'r.html')!r}]) == 0\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_no_command_is_a_usage_error(agon, capsys):
    assert agon() == 2
    assert "COMMAND" in _one_line(capsys)


def test_dry_run_prints_settings_and_budget_and_writes_nothing(agon, tmp_path, capsys):
    assert agon("train", "quickstart-agon", "--out", tmp_path / "run", "--dry-run", "--set", "train.steps=10") == 0
    shown = capsys.readouterr().out
    assert "steps = 10" in shown
    # 16 problems x 2 x 8 rollouts x 10 steps
    assert "16 rollouts a problem, 256 a step, 2,560 in all" in shown
    assert not (tmp_path / "run").exists()


def test_dry_run_shows_and_then_refuses_what_the_disk_cannot_hold(agon, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("agon.runs.space.shutil", SimpleNamespace(disk_usage=lambda _: SimpleNamespace(free=1_000_000)))
    assert agon("train", "quickstart-agon", "--out", tmp_path / "run", "--dry-run", "--set", "train.steps=1") == 1
    shown = capsys.readouterr()
    assert "steps = 1" in shown.out
    assert "has 1 MB of free disk, but 1.51 MB are needed" in shown.err
    assert not (tmp_path / "run").exists()
