"""A place that may not be written to: told in one line, before anything costly where that can be known, and what only reads goes on."""

from __future__ import annotations

import shutil

import pytest
from harness.disk import SmallDisk, can_mount
from harness.folders import TINY_WORDS, require_same

PROBLEM = "12 7 5 = 24"


@pytest.fixture(scope="module")
def disk(measured, tmp_path_factory):
    """A disk that holds an evaluated run and one that stopped before its end, and is read-only."""
    if not can_mount():
        pytest.skip("no process may mount a disk of its own here")
    opened = SmallDisk(tmp_path_factory.mktemp("small"))
    for name in ("run", "stopped"):
        shutil.copytree(measured, opened.outside / name)
    shutil.rmtree(opened.outside / "stopped" / "checkpoints" / "step-000003")
    opened.remount("ro")
    yield opened
    opened.starter.close()


@pytest.mark.parametrize(
    "words",
    [
        ("train", "quickstart-agon", *TINY_WORDS, "--out", "new"),
        ("train", "--out", "new", *TINY_WORDS),
        ("train", "--resume", "--out", "stopped"),
        ("ablate", "matrix-quickstart", "--out", "new", "--methods", "grpo", "--seeds", "0"),
        ("eval", "run", "--direction", "a-b"),
        ("eval", "run", "--microscope"),
        ("report", "run"),
        ("export", "run", "--out", "new"),
        ("compare", "run", "--out", "new.json"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_what_writes_there_is_refused_in_one_line_before_anything_is_sampled(disk, words):
    fault = {"at": {"call": "agon.rollout.batching:advance"}, "do": "raise", "text": "something was sampled"}
    ended = disk.starter.run(*words, cwd=disk.inside, faults=[fault])
    assert ended.code == 1, ended.told
    assert "read-only" in ended.reason or "permission denied" in ended.reason, ended.reason


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "run"),
        ("doctor", "run", "stopped"),
        ("verify", "run", "run"),
        ("solve", "run", PROBLEM),
        ("train", "--resume", "--out", "run", "--dry-run"),
        ("report", "run", "--out", "{place}/report.html"),
        ("export", "run", "--out", "{place}/export"),
        ("compare", "run", "--out", "{place}/compared.json"),
        ("eval", "quickstart", "--task", "countdown-lite", "--set", "evaluation.max_test=2"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_what_only_reads_there_works(disk, tmp_path, words):
    ended = disk.starter.run(*(word.format(place=tmp_path) for word in words), cwd=disk.inside)
    assert ended.code == 0, ended.told


def test_a_training_whose_disk_becomes_read_only_says_so_and_goes_on_when_it_is_not(starter, train, whole, place):
    """As the kernel does to a disk that fails: every write from here on is refused."""
    out = place / "run"
    refuse = {"at": {"event": "open", "path": str(out), "number": 20, "is_first": True}, "do": "raise", "errno": 30}
    ended = train(out, faults=[refuse])
    assert ended.code == 1, ended.told
    assert "the file system is read-only" in ended.reason
    assert starter.run("train", "--resume", "--out", out, cwd=place).code == 0
    require_same(out, whole)
