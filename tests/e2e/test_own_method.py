"""A method in a file of one's own trains through the command line like any other."""

from __future__ import annotations

import json
import sys
from pathlib import Path

NAME = "own_method:HardProblems"


def test_a_method_named_by_its_module_trains(agon, small, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    monkeypatch.delitem(sys.modules, "own_method", raising=False)
    out = tmp_path / "run"
    overrides = (*small, "--set", "train.steps=2", "--set", f"train.method={NAME}")
    assert agon("train", "quickstart-agon", "--out", out, *overrides) == 0
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(row["step"], row["drafter"], row["rollouts_per_problem"]) for row in rows] == [(0, "A", 8), (1, "B", 8)]
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))["train"]
    assert (config["method"], config["advantage"]) == (NAME, "group_mean")
    assert (out / "checkpoints" / "step-000002" / "B" / "adapter_model.safetensors").exists()
