"""A run and a matrix packed without the optimiser's moments, unpacked elsewhere: measured as the original is, and not trained on."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "pack_evidence.py"
EVALUATIONS = ("--evaluations", "cascade-a-b,single-b", "--json")
RECIPE = """
[adapter]
init = "standard"
[task]
wording = "symbols-v1"
max_train = 40
[rollout]
max_draft_tokens = 44
max_challenge_tokens = 44
max_summary_tokens = 40
[train]
steps = 2
problems_per_step = 2
group_size = 2
learning_rate = 0.02
[evaluation]
max_test = 4
max_dev = 4
[matrix]
seeds = [0]
pair = ["single-a", "cascade-a-b", "microscope"]
[[matrix.arms]]
name = "agon"
"""


@pytest.fixture(scope="module")
def take_home(tmp_path_factory):
    """Return a function that packs a folder with its adapters, unpacks it elsewhere, and returns the new folder."""

    def _take(folder: Path, *options: str) -> Path:
        place = tmp_path_factory.mktemp("home")
        words = [sys.executable, str(SCRIPT), str(folder), str(place / "parts"), "--adapters", *options]
        subprocess.run(words, capture_output=True, check=True)
        data = b"".join(part.read_bytes() for part in sorted((place / "parts").iterdir()))
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            archive.extractall(place, filter="data")
        return place / folder.name

    return _take


@pytest.fixture(scope="module")
def run(agon, small, tmp_path_factory):
    """Two steps of Agon, each saved, at a rate that moves the adapters far from where they began."""
    out = tmp_path_factory.mktemp("runs") / "agon"
    sets = ["train.steps=2", "train.save_every=1", "train.keep_checkpoints=2", "train.learning_rate=0.02"]
    assert agon("train", "quickstart-agon", "--out", out, *small, *(f"--set={value}" for value in sets)) == 0
    return out


@pytest.fixture(scope="module")
def matrix(agon, tmp_path_factory):
    """A matrix of one cell, trained and measured."""
    recipe = tmp_path_factory.mktemp("recipe") / "one.toml"
    recipe.write_text(RECIPE)
    out = tmp_path_factory.mktemp("matrix") / "one"
    assert agon("ablate", recipe, "--out", out) == 0
    return recipe, out


def measured(agon, folder, capsys):
    capsys.readouterr()
    assert agon("eval", folder, *EVALUATIONS) == 0
    return json.loads(capsys.readouterr().out)["evaluations"]


def test_a_packed_run_is_measured_as_the_original_and_exported(agon, run, take_home, tmp_path, capsys):
    home = take_home(run)
    assert [path.name for path in (home / "checkpoints").iterdir()] == ["step-000002"]
    assert not list(home.rglob("optimizer-*"))
    assert measured(agon, home, capsys) == measured(agon, run, capsys)
    assert agon("export", home, "--adapter", "A", "--out", tmp_path / "A") == 0
    assert agon("train", "--out", home, "--resume") == 0
    assert f"{home} is finished: 2 steps of 2" in capsys.readouterr().err


def test_a_rounded_run_is_measured_and_exported_with_a_note(agon, run, take_home, tmp_path, capsys):
    home = take_home(run, "--bfloat16")
    sizes = [
        (folder / "checkpoints" / "step-000002" / "A" / "adapter_model.safetensors").stat().st_size
        for folder in (home, run)
    ]
    assert sizes[0] < 0.6 * sizes[1]
    note = "the adapters of step-000002 were rounded to bfloat16 when it was packed"
    results = measured(agon, home, capsys)
    assert [note in result["notes"] for result in results] == [True, True]
    assert all(result["label"].endswith("-bfloat16") for result in results)
    assert agon("eval", home, *EVALUATIONS, "--checkpoint", "2") == 0
    again = json.loads(capsys.readouterr().out)["evaluations"]
    assert [note in result["notes"] for result in again] == [True, True]
    assert note not in str(measured(agon, run, capsys))
    assert agon("export", home, "--merge", "--out", tmp_path / "merged") == 0
    assert note in capsys.readouterr().err


def test_an_unfinished_packed_run_is_not_trained_on(agon, run, take_home, tmp_path, capsys):
    begun = tmp_path / "begun"
    shutil.copytree(run, begun)
    (begun / "checkpoints" / "step-000002" / "complete.json").unlink()
    home = take_home(begun, "--bfloat16")
    before = (home / "metrics.jsonl").read_bytes()
    capsys.readouterr()
    assert agon("train", "--out", home, "--resume") == 1
    assert capsys.readouterr().err == (
        f"agon: {home / 'checkpoints' / 'step-000001'} cannot be trained on from: the optimiser's moments (optimizer-A.safetensors) were left "
        "out when it was packed; resume the run folder that it was packed from, or train into another --out\n"
    )
    assert (home / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize("options", [(), ("--bfloat16",)])
def test_a_packed_matrix_goes_on_measuring_and_keeps_what_was_measured_before(agon, matrix, take_home, capsys, options):
    recipe, original = matrix
    home = take_home(original, *options)
    cell, source = home / "cells" / "agon-s0", original / "cells" / "agon-s0"
    # Still to be measured.
    (cell / "evaluations" / "cascade-a-b.json").unlink()
    kept = {path: path.read_bytes() for path in (cell / "metrics.jsonl", cell / "evaluations" / "single-a.json")}
    times = {path: path.stat().st_mtime_ns for path in [*kept, cell / "microscope.json"]}
    assert agon("ablate", recipe, "--out", home, "--resume") == 0
    assert "1 trained but not measured whole" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert {path: path.read_bytes() for path in kept} == kept
    made, before = (json.loads((folder / "evaluations" / "cascade-a-b.json").read_text()) for folder in (cell, source))
    rounded = {"rounded_to": "bfloat16"} if options else {}
    assert made["measured"] == before["measured"] | rounded
    if not options:
        assert made["per_problem"] == before["per_problem"]
    assert agon("ablate", recipe, "--out", home, "--resume", "--dry-run", "--json") == 0
    assert [cell["state"] for cell in json.loads(capsys.readouterr().out)["cells"]] == ["done"]
    assert agon("compare", home, "--json") == 0
    told = capsys.readouterr().out
    assert ("the adapters of step-000002 were rounded to bfloat16" in told) == bool(options)


def test_a_cell_that_cannot_be_gone_on_with_is_named_by_a_dry_run_and_before_anything_starts(
    agon, matrix, take_home, capsys
):
    recipe, original = matrix
    home = take_home(original)
    shutil.rmtree(home / "cells" / "agon-s0" / "checkpoints")
    before = {path: path.read_bytes() for path in (home / "cells").rglob("*.json*") if path.is_file()}
    warning = f"warning: the cell agon-s0 will fail: {home / 'cells' / 'agon-s0'} holds results ("
    capsys.readouterr()
    assert agon("ablate", recipe, "--out", home, "--resume", "--dry-run", "--json") == 0
    told = capsys.readouterr()
    assert [cell["state"] for cell in json.loads(told.out)["cells"]] == ["begun"]
    assert told.err.count("\n") == 1
    assert warning in told.err
    assert agon("ablate", recipe, "--out", home, "--resume") == 1
    assert warning in capsys.readouterr().err
    assert {path: path.read_bytes() for path in before} == before
