from __future__ import annotations

import pytest

from agon.cli import train
from agon.cli.main import build_parser
from agon.train import run
from agon.train.loop import Trained


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        (["deepmath-qwen3-0.6b"], "runs/deepmath-qwen3-0.6b"),
        (["recipes/deepmath-qwen3-0.6b.toml"], "runs/deepmath-qwen3-0.6b"),
        (["quickstart-agon", "--out", "elsewhere"], "elsewhere"),
    ],
)
def test_a_run_folder_is_named_after_the_whole_recipe(monkeypatch, words, folder):
    places = []
    monkeypatch.setattr(train, "_train_one", lambda settings, out, **others: places.append(str(out)) or 0)
    assert train.train(build_parser().parse_args(["train", *words])) == 0
    assert places == [folder]


@pytest.mark.parametrize(
    ("resume", "again"), [(True, " --set train.tokens_per_microbatch=64 --set 'alarms.truncated=\"off\"'"), (False, "")]
)
def test_a_continuation_that_stops_names_its_settings_again(monkeypatch, capsys, resume, again):
    for name in ("run_training", "resume_training"):
        monkeypatch.setattr(run, name, lambda *arguments: Trained(completed_steps=3, was_stopped=True))
    words = ["--set", "train.tokens_per_microbatch=64", "--set", 'alarms.truncated="off"', "--out", "mine"]
    options = build_parser().parse_args(["train", "quickstart-agon", *words, *(["--resume"] if resume else [])])
    assert train.train(options) == 130
    assert capsys.readouterr().err == f"agon: stopped after step 3, saved; continue with --resume --out mine{again}\n"
