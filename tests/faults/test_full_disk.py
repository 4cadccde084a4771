"""A disk that is full, at any moment: one line says so, nothing half-written is taken for whole, and the run goes on once there is room."""

from __future__ import annotations

import shutil

import pytest
from harness.disk import SmallDisk, can_mount
from harness.folders import TINY_WORDS, leftovers, require_same
from harness.processes import wait_until

# Just before this file is opened for the first (or K-th) time, the disk fills up.
WRITTEN = [
    ("config.json", 1),
    ("data.json", 1),
    ("manifest.json", 1),
    ("metrics.jsonl", 1),
    ("matches/.step-000000", 1),
    ("timings.jsonl", 1),
    ("A/adapter_model.safetensors", 1),
    ("B/adapter_config.json", 2),
    ("optimizer-A", 1),
    ("state.json", 2),
    ("complete.json", 3),
    ("matches/.step-000002", 1),
]
# The same, and later lines of files that grow.
SHORT = [*((part, number, 9) for part, number in WRITTEN), ("metrics.jsonl", 3, 700), ("timings.jsonl", 3, 20)]


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    if not can_mount():
        pytest.skip("no process may mount a disk of its own here")
    opened = SmallDisk(tmp_path_factory.mktemp("small"))
    yield opened
    opened.starter.close()


def _resumed(starter, out, folder):
    """Continue a run for which there is room again, or begin it where it had not begun. `folder` is where we see it."""
    resumed = starter.run("train", "--resume", "--out", out, cwd=out.parent)
    if not (folder / "manifest.json").exists():
        assert resumed.code == 1
        resumed = starter.run("train", "quickstart-agon", "--out", out, *TINY_WORDS, cwd=out.parent)
    assert resumed.code == 0, resumed.told


def _train_until_full(disk, tmp_path, at):
    """Start a training, fill the disk at a moment of it, and return how it ended."""
    reached = tmp_path / "reached"
    words = ("train", "quickstart-agon", "--out", disk.inside / "run", *TINY_WORDS)
    training = disk.starter.start(*words, cwd=disk.inside, faults=[{"at": at, "do": "pause", "reached": str(reached)}])
    wait_until(lambda: reached.exists() or training.is_over, f"{at} is reached")
    disk.fill()
    (tmp_path / "reached.go").touch()
    return training.wait()


def _require_whole_with_room(disk, whole):
    """Free the disk: what the training left has nothing half-written, and it goes on to the same bytes."""
    seen = disk.outside / "run"
    assert not leftovers(seen)
    disk.free()
    _resumed(disk.starter, disk.inside / "run", seen)
    require_same(seen, whole)
    disk.clear()


@pytest.mark.parametrize(("part", "number"), WRITTEN)
def test_a_training_on_a_full_disk_says_so_and_goes_on_once_there_is_room(disk, whole, tmp_path, part, number):
    ended = _train_until_full(disk, tmp_path, {"event": "open", "path": part, "number": number})
    assert ended.code == 1, ended.told
    assert "the disk is full: free some space" in ended.reason
    _require_whole_with_room(disk, whole)


def test_a_checkpoint_for_which_there_is_no_room_is_not_begun(disk, whole, tmp_path):
    ended = _train_until_full(disk, tmp_path, {"call": "agon.train.loop:save_state", "number": 2})
    assert ended.code == 1, ended.told
    assert "the checkpoint was not begun" in ended.reason
    _require_whole_with_room(disk, whole)


def test_a_start_on_a_disk_without_room_is_refused_before_anything_is_written(disk):
    disk.fill()
    ended = disk.starter.run("train", "quickstart-agon", "--out", disk.inside / "run", *TINY_WORDS, cwd=disk.inside)
    assert ended.code == 1
    assert "of free disk, but" in ended.reason
    assert not (disk.outside / "run").exists()
    disk.clear()


@pytest.mark.parametrize("words", [["eval", "--direction", "a-b"], ["eval", "--microscope"], ["report"]])
def test_what_measures_and_reports_on_a_full_disk_says_so_and_leaves_what_was_there(disk, measured, words):
    out, seen = disk.inside / "run", disk.outside / "run"
    shutil.copytree(measured, seen)
    before = {path: path.read_bytes() for path in seen.rglob("*") if path.is_file()}
    disk.fill()
    ended = disk.starter.run(words[0], out, *words[1:], cwd=disk.inside)
    assert ended.code == 1, ended.told
    assert "the disk is full" in ended.reason
    assert {path: path.read_bytes() for path in seen.rglob("*") if path.is_file()} == before
    disk.clear()


def test_an_export_onto_a_full_disk_says_so_and_leaves_nothing(disk, measured):
    disk.fill()
    ended = disk.starter.run("export", measured, "--out", disk.inside / "out", cwd=disk.inside)
    assert ended.code == 1, ended.told
    assert "the disk is full" in ended.reason
    assert [path.name for path in disk.outside.iterdir()] == ["ballast"]
    disk.clear()


@pytest.mark.parametrize(("part", "number", "size"), SHORT)
def test_a_write_that_ends_in_the_middle_is_never_taken_for_a_whole_one(
    starter, train, whole, place, part, number, size
):
    """The system takes `size` bytes of the file and no more, as where a limit or a quota is reached in its middle."""
    out = place / "run"
    fault = {"at": {"event": "open", "path": part, "number": number}, "do": "short", "bytes": size}
    ended = train(out, faults=[fault])
    assert ended.code == 1, ended.told
    assert "cannot write" in ended.reason
    assert not leftovers(out)
    if (out / "manifest.json").exists():
        reported = starter.run("report", out, cwd=place)
        assert reported.code == 0, reported.told
    _resumed(starter, out, out)
    require_same(out, whole)


@pytest.mark.parametrize("event", ["fsync", "rename", "mkdir"])
def test_a_failing_disk_is_told_in_one_line(starter, train, whole, place, event):
    out = place / "run"
    fault = {"at": {"event": event, "path": "checkpoints/.step-000002"}, "do": "raise", "errno": 5}
    ended = train(out, faults=[fault])
    assert ended.code == 1, ended.told
    assert "step-000002: the disk failed to read or write" in ended.reason
    assert not leftovers(out)
    _resumed(starter, out, out)
    require_same(out, whole)
