from __future__ import annotations

import pytest

from agon.cli import train
from agon.cli.main import build_parser


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
    monkeypatch.setattr(train, "_train_one", lambda settings, out, *, resume: places.append(str(out)) or 0)
    assert train.train(build_parser().parse_args(["train", *words])) == 0
    assert places == [folder]
