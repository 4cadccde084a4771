from __future__ import annotations

import json

import pytest

from agon.audit.differences import ABSENT, compare_runs
from agon.errors import RunError
from agon.runs import RunFolder

SETTINGS = {"train": {"seed": 0, "steps": 3}, "task": {"path": None, "name": "svamp"}}


def new_run(path, settings, **hashes):
    RunFolder.create(path, settings=settings, hashes=hashes).close()
    return path


def change_manifest(run, **changes):
    path = run / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_two_runs_of_the_same_settings_and_versions_do_not_differ(tmp_path):
    first, second = (new_run(tmp_path / name, SETTINGS, base="b", data="d") for name in ("one", "two"))
    assert compare_runs(first, second).is_same


def test_settings_versions_and_hashes_that_differ_are_told(tmp_path):
    other = {"train": {"seed": 1, "steps": 3, "clip": 0.2}, "task": {"name": "svamp"}}
    first, second = (
        new_run(tmp_path / "one", SETTINGS, base="b", data="d"),
        new_run(tmp_path / "two", other, base="b", data="e"),
    )
    change_manifest(first, versions={"torch": "2.11", "numpy": "2.4"}, platform="Linux")
    change_manifest(second, versions={"torch": "2.13", "numpy": "2.4", "vllm": "0.26"}, platform="macOS")
    found = compare_runs(first, second)
    assert not found.is_same
    # a path of None is not the same as no path: another version of agon may have another default
    assert found.settings == [("train.seed", 0, 1), ("task.path", None, ABSENT), ("train.clip", ABSENT, 0.2)]
    assert found.versions == [("torch", "2.11", "2.13"), ("vllm", ABSENT, "0.26")]
    assert found.hashes == [("data", "d", "e")]
    assert found.platform == [("platform", "Linux", "macOS")]
    assert found.to_json()["settings"] == [
        {"name": "train.seed", "first": 0, "second": 1},
        {"name": "task.path", "first": None},
        {"name": "train.clip", "second": 0.2},
    ]


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(RunError, match="nothing"):
        compare_runs(new_run(tmp_path / "one", SETTINGS), tmp_path / "nothing")
