"""Two tiny trainings, evaluated and compared."""

import json
import shutil

import pytest


@pytest.fixture(scope="module")
def grpo(agon, small, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "grpo"
    assert agon("train", "quickstart-grpo", "--out", out, *small) == 0
    return out


@pytest.fixture(scope="module")
def measured(agon, trained, grpo, tmp_path_factory):
    # A copy: other tests measure more of the run that all share.
    copy = tmp_path_factory.mktemp("measured") / "agon"
    shutil.copytree(trained, copy, ignore=shutil.ignore_patterns("evaluations"))
    trained = copy
    for words in ((trained, "--direction", "a-b"), (trained, "--direction", "b-a"), (grpo,)):
        assert agon("eval", *words) == 0
    return trained, grpo


def test_compare_prints_one_tree_with_the_agreed_names(agon, measured, tmp_path, capsys):
    capsys.readouterr()
    assert agon("compare", *measured, "--against", "grpo", "--json", "--out", tmp_path / "c.json") == 0
    tree = json.loads(capsys.readouterr().out)
    assert json.loads((tmp_path / "c.json").read_text()) == tree
    assert (tree["subject"]["task"], tree["subject"]["n"]) == ("countdown-lite", 12)
    assert [arm["name"] for arm in tree["arms"]] == ["agon", "grpo"]
    rows = {row["id"]: row for row in tree["rows"]}
    assert {"agon:cascade:a-b", "agon:cascade:b-a", "agon:cascade:mean", "grpo:single:a"} <= rows.keys()
    mean = (rows["agon:cascade:a-b"]["accuracy"] + rows["agon:cascade:b-a"]["accuracy"]) / 2
    assert rows["agon:cascade:mean"]["accuracy"] == pytest.approx(mean)
    assert rows["grpo:single:a"]["tokens"]["total"] > 0
    assert rows["grpo:single:a"]["dead_group_share"] is not None
    (test,) = tree["tests"]
    assert test["second"] == "grpo:single:a"
    assert test["n"] == 12


def test_compare_prints_a_table_and_tests(agon, measured, capsys):
    capsys.readouterr()
    assert agon("compare", *measured) == 0
    out = capsys.readouterr().out
    assert "agon: cascade" in out
    assert "grpo: single" in out
    assert "arm minus rival on the same problems" in out
    assert max(len(line.rstrip()) for line in out.splitlines() if not line.startswith("note:")) <= 100


def test_compare_names_the_run_that_was_measured_on_other_problems(agon, measured, small, tmp_path, capsys):
    run, _ = measured
    other = tmp_path / "other"
    assert agon("train", "quickstart-grpo", "--out", other, *small, "--set", "train.steps=1") == 0
    capsys.readouterr()
    assert agon("eval", other, "--set", "evaluation.max_test=5", "--set", "task.withholding=drop") == 0
    assert "measured with task.withholding=drop, trained with mark" in capsys.readouterr().out
    assert agon("compare", run, other) == 1
    error = capsys.readouterr().err
    assert str(other) in error
    assert "was measured on other problems than" in error
    assert "evaluate it on the same task and split" in error


def test_compare_says_what_to_run_where_nothing_was_measured(agon, small, tmp_path, capsys):
    run = tmp_path / "bare"
    assert agon("train", "quickstart-grpo", "--out", run, *small, "--set", "train.steps=1") == 0
    capsys.readouterr()
    assert agon("compare", run) == 1
    assert capsys.readouterr().err == f"agon: {run} has no evaluation to compare: run `agon eval {run}` first\n"
    assert agon("compare", tmp_path / "absent") == 1
    assert "does not exist" in capsys.readouterr().err
