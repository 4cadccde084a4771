"""Two processes on one folder: the second is refused and told who is there; what a dead one held is free."""

from __future__ import annotations

import json
import shutil

import pytest
from harness.folders import TINY_WORDS, damage, require_same
from harness.processes import wait_until

START = ("train", "quickstart-agon", *TINY_WORDS, "--out")


@pytest.fixture
def held(starter, place):
    """A training that stands still in its second step, with its pid and the file that lets it go on."""
    reached = place / "reached"
    pause = {"at": {"event": "open", "path": "metrics.jsonl", "number": 2}, "do": "pause", "reached": str(reached)}
    training = starter.start(*START, place / "run", cwd=place, faults=[pause])
    wait_until(reached.exists, "its second step")
    yield training
    (place / "reached.go").touch()
    training.wait()


def _in_use(ended, training):
    assert ended.code == 1, ended.told
    assert f"in use by process {training.pid} on host" in ended.reason
    assert "wait for it to end, or stop it" in ended.reason


def test_a_second_process_is_refused_with_the_owner_and_disturbs_nothing(starter, held, whole, place):
    out = place / "run"
    _in_use(starter.run("train", "--resume", "--out", out, cwd=place), held)
    begun = starter.run(*START, out, cwd=place)
    assert begun.code == 1
    assert "is not empty" in begun.reason
    (place / "reached.go").touch()
    assert held.wait().code == 0
    require_same(out, whole)


def test_two_that_begin_at_once_do_not_mix(starter, whole, place):
    """Both have seen an empty folder; the second comes to the lock while the first has it."""
    out, reached = place / "run", place / "reached"
    pause = {"at": {"event": "open", "path": "config.json"}, "do": "pause", "reached": str(reached)}
    first = starter.start(*START, out, cwd=place, faults=[pause])
    wait_until(reached.exists, "the first begins")
    second = starter.run(*START, out, "--set", "train.seed=5", cwd=place)
    _in_use(second, first)
    (place / "reached.go").touch()
    assert first.wait().code == 0
    require_same(out, whole)


def test_the_lock_of_a_killed_process_is_free(starter, held, whole, place):
    held.send(9)
    held.wait()
    owner = json.loads((place / "run" / "run.lock").read_text())
    assert owner["pid"] == held.pid
    assert starter.run("train", "--resume", "--out", place / "run", cwd=place).code == 0
    require_same(place / "run", whole)


@pytest.mark.parametrize("kind", ["emptied", "cut", "flipped"])
def test_a_damaged_lock_still_holds_and_is_free_when_its_process_is_gone(starter, held, whole, place, kind):
    damage(place / "run" / "run.lock", kind, "run.lock")
    refused = starter.run("train", "--resume", "--out", place / "run", cwd=place)
    assert refused.code == 1
    assert "in use by process" in refused.reason
    held.send(9)
    held.wait()
    assert starter.run("train", "--resume", "--out", place / "run", cwd=place).code == 0
    require_same(place / "run", whole)


def test_a_lock_that_came_with_a_copied_folder_is_free(starter, held, whole, place):
    """Of a run that is still going on elsewhere: the copy is another folder."""
    shutil.copytree(place / "run", place / "copy")
    assert starter.run("train", "--resume", "--out", place / "copy", cwd=place).code == 0
    require_same(place / "copy", whole)


def test_what_only_reads_is_not_kept_from_a_run_that_goes_on(starter, held, place):
    for words in (("report", place / "run", "--out", place / "r.html"), ("eval", place / "run", "--direction", "a-b")):
        ended = starter.run(*words, cwd=place)
        assert ended.code == 0, ended.told


@pytest.mark.parametrize("words", [("train", "--out", "both"), ("ablate", "small.toml", "--out", "both")], ids=" ".join)
def test_two_on_one_folder_of_several_runs_are_refused(starter, recipe, place, words):
    """The quickstart and a matrix: their cells, logs and reports would get mixed."""
    if words[0] == "train":
        words = (*words, *TINY_WORDS)
    (place / "small.toml").write_text(recipe.read_text())
    reached = place / "reached"
    pause = {"at": {"event": "open", "path": "recipes/"}, "do": "pause", "reached": str(reached)}
    first = starter.start(*words, cwd=place, faults=[pause])
    wait_until(lambda: reached.exists() or first.is_over, "the first begins")
    _in_use(starter.run(*words, "--resume", cwd=place), first)
    first.send(9)
    first.wait()
