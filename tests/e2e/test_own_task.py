"""A task and a verifier in files of one's own go through the command line like any others."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
ROWS = [
    {"question": f"How many metres is {number} times 9.81 m?", "answer": round(9.81 * number, 2), "tolerance": 0.1}
    for number in range(2, 8)
]


@pytest.fixture(autouse=True)
def _on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield
    for name in ("own_task", "own_verifier"):
        sys.modules.pop(name, None)


def test_a_run_is_measured_on_a_task_of_ones_own(agon, trained, tmp_path):
    run = shutil.copytree(trained, tmp_path / "run")
    words = ("--task", "own_task:rows", "--set", "task.verifier=expression", "--set", "task.num_generated=40")
    assert agon("eval", run, "--protocol", "single", *words) == 0
    label = "own_task_rows-test-single-a"
    result = json.loads((run / "evaluations" / f"{label}.json").read_text(encoding="utf-8"))
    assert (result["task"], result["outcomes"].get("error", 0)) == ("own_task:rows", 0)
    with gzip.open(run / "evaluations" / f"{label}.matches.jsonl.gz", "rt", encoding="utf-8") as lines:
        details = json.loads(next(lines))["problem"]["details"]
    assert len(details["numbers"]) == 3
    assert agon("verify", "run", run) == 0


def test_golds_are_checked_by_a_verifier_of_ones_own(agon, tmp_path, capsys):
    file = tmp_path / "physics.jsonl"
    file.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    words = ("data", "check", file, "--set", "task.verifier=own_verifier:within")
    assert agon(*words) == 0
    assert capsys.readouterr().out.endswith("clean\n")
    file.write_text("\n".join(map(json.dumps, [*ROWS, {"question": "q", "answer": 1}])), encoding="utf-8")
    assert agon(*words) == 1
    assert "row 7 of " in (said := capsys.readouterr().out)
    assert "is judged error: KeyError: 'tolerance'" in said


@pytest.mark.parametrize(
    "wrong",
    [["task.name=own_task:nothing"], ["task.name=custom", "task.path=mine.jsonl", "task.verifier=own_task:nothing"]],
)
def test_a_name_that_cannot_be_imported_ends_with_2_before_a_model_loads(agon, tmp_path, capsys, monkeypatch, wrong):
    monkeypatch.chdir(tmp_path)
    Path("mine.jsonl").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    overrides = [word for setting in wrong for word in ("--set", setting)]
    assert agon("train", "quickstart-agon", "--out", "run", *overrides) == 2
    assert "is 'own_task:nothing', which cannot be imported" in capsys.readouterr().err
    assert not Path("run").exists()
