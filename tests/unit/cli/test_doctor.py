from __future__ import annotations

import json

import pytest

from agon.cli.main import main
from agon.runs import RunFolder, create_parent


def new_run(path, *, seed=0, accuracies=(0.1, 0.2)):
    with RunFolder.create(path, settings={"train": {"seed": seed}}, hashes={"base": "b"}) as run:
        for step, accuracy in enumerate(accuracies):
            run.write_metrics({"step": step, "draft/accuracy": accuracy})
    return str(path)


def told(capsys, *words):
    assert main(["doctor", *words]) == 0
    return capsys.readouterr().out


def test_runs_that_are_alike_say_how_far_that_was_looked_at(tmp_path, capsys):
    runs = new_run(tmp_path / "one"), new_run(tmp_path / "two")
    assert "nothing differs: the same came out, every metric of 2 steps\n" in told(capsys, *runs)
    begun = new_run(tmp_path / "three", accuracies=()), new_run(tmp_path / "four", accuracies=())
    assert "nothing differs, and neither has taken a step" in told(capsys, *begun)


def test_results_that_differ_alone_are_told_with_what_may_be_why(tmp_path, capsys):
    out = told(capsys, new_run(tmp_path / "one"), new_run(tmp_path / "two", accuracies=(0.1, 0.3)))
    assert "step 1: draft/accuracy  0.2    0.3" in out
    assert "only the results differ: the two did not compute alike" in out


def test_settings_that_made_no_difference_are_told_as_such(tmp_path, capsys):
    out = told(capsys, new_run(tmp_path / "one"), new_run(tmp_path / "two", seed=1))
    assert "train.seed  0      1" in out
    assert "the same came out all the same: every metric of 2 steps" in out
    assert "only the results differ" not in out


def test_two_quickstarts_are_compared_run_by_run(tmp_path, capsys):
    for name, seed in (("one", 0), ("two", 1)):
        create_parent(tmp_path / name, children=["grpo", "cooperative", "agon"], default="agon")
        new_run(tmp_path / name / "grpo")
        new_run(tmp_path / name / "agon", seed=seed)
    new_run(tmp_path / "one" / "cooperative")
    folders = str(tmp_path / "one"), str(tmp_path / "two")
    out = told(capsys, *folders)
    assert "1 of 2 runs that have begun in both do not differ: grpo" in out
    assert "only first: cooperative" in out
    assert "== agon" in out
    assert "train.seed  0      1" in out
    found = json.loads(told(capsys, *folders, "--json"))
    assert [(own["run"], own["same"]) for own in found["runs"]] == [("grpo", True), ("agon", False)]
    assert (found["same"], found["only_first"], found["only_second"]) == (False, ["cooperative"], [])


def test_a_run_is_compared_with_the_default_of_a_quickstart(tmp_path, capsys):
    create_parent(tmp_path / "q", children=["agon"], default="agon")
    run = new_run(tmp_path / "q" / "agon")
    assert "nothing differs" in told(capsys, str(tmp_path / "q"), run)


def test_a_setting_from_a_foreign_folder_gives_the_terminal_no_orders(tmp_path, capsys):
    first, second = new_run(tmp_path / "one"), new_run(tmp_path / "two")
    (tmp_path / "two" / "config.json").write_text(json.dumps({"train": {"seed": "\x1b[2J", "\x1b]0;x\x07": 1}}))
    out = told(capsys, first, second)
    assert "\x1b" not in out
    assert "train.\\x1b]0;x\\x07" in out


@pytest.mark.parametrize(("version", "remedy"), [(2, "upgrade agon"), (0, "use agon")])
def test_a_run_of_another_format_is_refused_with_the_remedy(tmp_path, capsys, version, remedy):
    first = new_run(tmp_path / "one")
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "manifest.json").write_text(json.dumps({"format_version": version}))
    assert main(["doctor", first, str(tmp_path / "two")]) == 1
    assert remedy in capsys.readouterr().err
