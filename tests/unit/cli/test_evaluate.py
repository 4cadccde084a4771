from __future__ import annotations

import json
import math
import tomllib
from argparse import ArgumentTypeError
from importlib import resources

import pytest

from agon.cli.evaluate import _task_overrides, _threshold
from agon.cli.main import main
from agon.errors import ConfigError
from agon.recipe import settings_from

DEEPMATH = tomllib.loads((resources.files("agon.recipes") / "deepmath-qwen3-0.6b.toml").read_text())


def test_another_named_task_forgets_what_the_recipe_said_of_its_own_data():
    settings = settings_from(DEEPMATH, _task_overrides("math500"))
    assert DEEPMATH["task"]["difficulty_min"] == 8.0
    assert (settings.task.name, settings.task.difficulty_min, settings.task.max_train) == ("math500", None, None)
    # how much the model can read belongs to the model
    assert settings.task.max_prompt_tokens == 2048


def test_another_task_is_asked_answered_and_withheld_as_in_the_training():
    taught = {"wording": "plain-v3", "withholding": "drop", "answer_style": "boxed"}
    task = settings_from({"task": {"name": "gsm8k", **taught}}, _task_overrides("math500")).task
    assert task.name == "math500"
    assert {name: getattr(task, name) for name in taught} == taught


def test_another_file_does_not_keep_the_runs_own_test_file(tmp_path):
    path = tmp_path / "fünf.jsonl"
    path.write_text(json.dumps({"question": "2 + 3", "answer": "5"}) + "\n")
    own = {"task": {"name": "custom", "hub": "owner/data", "test_path": "own-test.jsonl"}}
    task = settings_from(own, _task_overrides(str(path))).task
    assert (task.name, task.path, task.hub, task.test_path) == ("custom", None, None, str(path))


def test_a_code_task_is_answered_in_code_whatever_the_run_answered_in():
    assert settings_from(DEEPMATH, _task_overrides("humaneval")).task.answer_style == "code"


def test_a_task_that_is_not_known_is_blamed_on_the_option_that_named_it():
    with pytest.raises(ConfigError, match=r"^--task: task\.name is 'gsm8kk'.*did you mean 'gsm8k'"):
        _task_overrides("gsm8kk")
    # Where its rows are may follow.
    assert settings_from(DEEPMATH, [*_task_overrides("custom"), "task.hub=owner/data"]).task.hub == "owner/data"


@pytest.mark.parametrize(
    "key", ["train.steps", "reward.conversion", "adapter.rank", "alarms.steps", "rollout.temperature"]
)
def test_a_setting_that_measuring_does_not_look_at_is_refused_by_name(key, capsys):
    assert main(["eval", "runs/x", "--set", "task.dev_share=.2", "--set", f" {key} =1"]) == 2
    told = capsys.readouterr().err
    assert f"--set {key} has no effect in `agon eval`, which looks at model.*, task.*, rollout.engine, " in told
    assert told.count("\n") == 1


def test_a_file_of_programs_is_answered_in_code_unless_a_verifier_is_named(tmp_path):
    path = tmp_path / "programs.jsonl"
    path.write_text(json.dumps({"prompt": "Add one.", "test_list": ["assert f(1) == 2"]}) + "\n")
    task = settings_from(DEEPMATH, _task_overrides(str(path))).task
    assert (task.verifier, task.answer_style) == ("code", "code")
    chosen = ["task.verifier=math", "task.answer_field=prompt"]
    task = settings_from(DEEPMATH, [*_task_overrides(str(path), chosen), *chosen]).task
    assert (task.verifier, task.answer_style) == ("math", "tags")


@pytest.mark.parametrize(
    ("value", "threshold"), [("dev", "dev"), ("-0.25", -0.25), ("1", 1.0), ("inf", math.inf), ("-inf", -math.inf)]
)
def test_a_threshold_is_a_number_or_chosen_on_dev(value, threshold):
    assert _threshold(value) == threshold


@pytest.mark.parametrize("value", ["test", "", "nan", "0,5"])
def test_any_other_threshold_is_refused(value):
    with pytest.raises(ArgumentTypeError, match="neither dev nor a number"):
        _threshold(value)
