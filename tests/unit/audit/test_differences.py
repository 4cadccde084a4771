from __future__ import annotations

import json
import shutil

import pytest

from agon.audit.differences import ABSENT, Pair, compare_runs, pair_runs
from agon.errors import RunError
from agon.runs import RunFolder, create_parent, read_json
from agon.runs.matrix import Matrix, MatrixArm, MatrixCell, write_matrix

SETTINGS = {"train": {"seed": 0, "steps": 3}, "task": {"path": None, "name": "svamp"}}


def new_run(path, settings=SETTINGS, *, accuracies=(), weights=None, data=None, **hashes):
    with RunFolder.create(path, settings=settings, hashes=hashes, data=data) as run:
        for step, accuracy in enumerate(accuracies):
            run.write_metrics({"step": step, "draft/accuracy": accuracy, "learning_rate": 1e-5})
        if weights is not None:
            with run.checkpoint(len(accuracies)) as folder:
                for name in ("A", "B"):
                    (folder / name).mkdir()
                    (folder / name / "adapter_model.safetensors").write_bytes(weights[name])
    return path


def change_manifest(run, **changes):
    path = run / "manifest.json"
    path.write_text(json.dumps(read_json(path) | changes))


def test_two_runs_of_the_same_settings_and_versions_do_not_differ(tmp_path):
    first, second = (
        new_run(tmp_path / name, accuracies=(0.1, 0.2), weights={"A": b"a", "B": b"b"}, base="b", data_hash="d")
        for name in ("one", "two")
    )
    found = compare_runs(first, second)
    assert found.is_same
    assert (found.num_steps, found.saved_step) == (2, 2)


def test_settings_versions_and_hashes_that_differ_are_told(tmp_path):
    other = {"train": {"seed": 1, "steps": 3, "clip": 0.2}, "task": {"name": "svamp"}}
    first, second = (
        new_run(tmp_path / "one", base="b", tests="d"),
        new_run(tmp_path / "two", other, base="b", tests="e"),
    )
    change_manifest(first, versions={"torch": "2.11", "numpy": "2.4"}, platform="Linux", machine={"threads": "1"})
    change_manifest(
        second,
        versions={"torch": "2.13", "numpy": "2.4", "vllm": "0.26"},
        platform="macOS",
        machine={"threads": "2", "device": "cpu"},
    )
    found = compare_runs(first, second)
    assert not found.is_same
    # a path of None is not the same as no path: another version of agon may have another default
    assert found.settings == [("train.seed", 0, 1), ("task.path", None, ABSENT), ("train.clip", ABSENT, 0.2)]
    assert found.versions == [("torch", "2.11", "2.13"), ("vllm", ABSENT, "0.26")]
    assert found.hashes == [("tests", "d", "e")]
    assert found.machine == [("platform", "Linux", "macOS"), ("threads", "1", "2"), ("device", ABSENT, "cpu")]
    assert found.to_json()["settings"] == [
        {"name": "train.seed", "first": 0, "second": 1},
        {"name": "task.path", "first": None},
        {"name": "train.clip", "second": 0.2},
    ]


def test_other_data_is_told_by_its_counts_and_not_by_its_hash_alone(tmp_path):
    account = {
        "name": "svamp",
        "source": "train.jsonl",
        "counts": {"train": 9, "dev": 1},
        "dropped_rows": [{"number": 3}],
    }
    other = {**account, "counts": {"train": 8, "dev": 1}, "dropped_rows": []}
    first, second = new_run(tmp_path / "one", data=account), new_run(tmp_path / "two", data=other)
    assert compare_runs(first, second).data == [("counts.train", 9, 8), ("dropped_rows", 1, 0)]
    # A run from before this was written down.
    (second / "data.json").unlink()
    assert ("source", "train.jsonl", ABSENT) in compare_runs(first, second).data


def test_no_secret_of_an_older_run_is_shown(tmp_path):
    first, second = new_run(tmp_path / "one"), new_run(tmp_path / "two")
    (first / "config.json").write_text(json.dumps({"tracking": {"api_key": "password1", "project": "https://me:pw@h"}}))
    assert ("tracking.api_key", "[redacted]", ABSENT) in compare_runs(first, second).settings
    assert ("tracking.project", "https://[redacted]@h", ABSENT) in compare_runs(first, second).settings


def test_the_first_step_with_other_numbers_is_told(tmp_path):
    first = new_run(tmp_path / "one", accuracies=(0.1, 0.2, 0.3))
    second = new_run(tmp_path / "two", accuracies=(0.1, 0.25, 0.35, 0.4))
    found = compare_runs(first, second)
    assert found.results == [("steps", 3, 4), ("step 1: draft/accuracy", 0.2, 0.25)]
    assert not any(found.causes.values())
    assert not found.is_same


def test_adapters_are_compared_after_the_last_step_that_both_saved(tmp_path):
    first = new_run(tmp_path / "one", accuracies=(0.1,), weights={"A": b"a", "B": b"b"})
    second = new_run(tmp_path / "two", accuracies=(0.1,), weights={"A": b"a", "B": b"x"})
    ((name, one, other),) = compare_runs(first, second).results
    assert name == "adapter B after step 1"
    assert one != other
    (second / "checkpoints" / "step-000001" / "complete.json").write_text("{")
    assert compare_runs(first, second).results[0][::2] == ("adapter A after step 1", "(checkpoint damaged)")
    shutil.rmtree(second / "checkpoints" / "step-000001")
    assert compare_runs(first, second).saved_step is None


def test_a_run_without_its_metrics_has_no_steps(tmp_path):
    first, second = (new_run(tmp_path / name, accuracies=(0.1,)) for name in ("one", "two"))
    (second / "metrics.jsonl").unlink()
    assert compare_runs(first, second).results == [("steps", 1, 0)]


def test_runs_of_two_matrices_are_paired_by_their_cells(tmp_path):
    for name, seeds, begun in (("one", (0, 1), ("agon-s0", "agon-s1")), ("two", (0, 2), ("agon-s0",))):
        cells = tuple(MatrixCell("agon", seed, f"cells/agon-s{seed}") for seed in seeds)
        (tmp_path / name).mkdir()
        write_matrix(tmp_path / name, Matrix("r", seeds, (MatrixArm("agon", "Agon", "agon", "exchange"),), cells))
        for run in begun:
            new_run(tmp_path / name / "cells" / run)
    one, two = tmp_path / "one", tmp_path / "two"
    assert pair_runs(one, two) == [
        Pair("cells/agon-s0", one / "cells/agon-s0", two / "cells/agon-s0"),
        Pair("cells/agon-s1", one / "cells/agon-s1", None),
        Pair("cells/agon-s2", None, None),
    ]


def test_runs_of_two_quickstarts_are_paired_by_their_names(tmp_path):
    for name in ("one", "two"):
        create_parent(tmp_path / name, children=["grpo", "agon"], default="agon")
        new_run(tmp_path / name / "agon")
    assert [(pair.name, pair.first is None) for pair in pair_runs(tmp_path / "one", tmp_path / "two")] == [
        ("grpo", True),
        ("agon", False),
    ]


def test_a_folder_that_is_no_run_or_of_another_format_is_refused(tmp_path):
    first, second = new_run(tmp_path / "one"), new_run(tmp_path / "two")
    with pytest.raises(RunError, match="nothing"):
        compare_runs(first, tmp_path / "nothing")
    change_manifest(second, format_version=2)
    with pytest.raises(RunError, match="reads no newer one than 1: upgrade agon"):
        compare_runs(first, second)
    (first / "config.json").unlink()
    with pytest.raises(RunError, match=r"config\.json is missing"):
        compare_runs(first, first)
