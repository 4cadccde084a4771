"""SIGKILL at any moment of a training: it is continued to the same bytes, or begun again to the same bytes."""

from __future__ import annotations

import json
import random
import shutil

import pytest
from harness.folders import SEED, TINY_WORDS, leftovers, require_same
from harness.processes import wait_until

_rng = random.Random(SEED)
# Where among the moments of its kind a kill falls: the moments themselves are known once a run has been watched.
AT_A_FILE = [_rng.random() for _ in range(8)]
IN_A_CHECKPOINT = [_rng.random() for _ in range(6)]
WHILE_COMPUTING = [_rng.random() for _ in range(6)]


@pytest.fixture(scope="module")
def moments(train, tmp_path_factory) -> list[list[str]]:
    """Every change that an undisturbed run makes to its folder, in order: what, and to which path below it."""
    folder = tmp_path_factory.mktemp("watched")
    watched = {"at": {"event": "any", "path": str(folder / "run")}, "do": "record", "file": str(folder / "log")}
    assert train(folder / "run", faults=[watched]).code == 0
    lines = (folder / "log").read_text().splitlines()
    return [[event, path.removeprefix(str(folder))] for event, path in map(json.loads, lines)]


def _number_of(moments, fraction, part):
    """Return the number among all moments of the one at a fraction of those whose path has a part in it."""
    numbers = [number for number, (_, path) in enumerate(moments, 1) if part in path]
    return numbers[int(fraction * len(numbers))]


def _killed(train, out, at, *words):
    ended = train(out, *words, faults=[{"at": at, "do": "kill"}])
    assert ended.code == -9, ended.told
    assert "Traceback" not in ended.told
    return ended


def _killed_at_a_file(train, out, moments, fraction, *, part):
    number = _number_of(moments, fraction, part)
    print(f"seed {SEED}: killed before {moments[number - 1]}, moment {number} of {len(moments)}")
    _killed(train, out, {"event": "any", "path": str(out), "number": number})


def _recovered(starter, train, out):
    """Continue a run that was killed, or begin it again where it had not begun."""
    resumed = starter.run("train", "--resume", "--out", out, cwd=out.parent)
    if not (out / "manifest.json").exists():
        assert resumed.code == 1
        assert str(out) in resumed.reason
        resumed = train(out)
    assert resumed.code == 0, resumed.told
    return resumed


@pytest.mark.parametrize("fraction", AT_A_FILE)
def test_killed_as_it_touches_a_file_it_goes_on_to_the_same_bytes(starter, train, whole, moments, place, fraction):
    out = place / "run"
    _killed_at_a_file(train, out, moments, fraction, part="")
    _recovered(starter, train, out)
    require_same(out, whole)
    assert not leftovers(out)


@pytest.mark.parametrize("fraction", IN_A_CHECKPOINT)
def test_killed_within_a_checkpoint_it_goes_on_to_the_same_bytes(starter, train, whole, moments, place, fraction):
    out = place / "run"
    _killed_at_a_file(train, out, moments, fraction, part="/checkpoints/.step-")
    reported = starter.run("report", out, cwd=place)
    assert reported.code == 0, reported.told
    _recovered(starter, train, out)
    require_same(out, whole)
    assert not leftovers(out)


@pytest.mark.parametrize("fraction", WHILE_COMPUTING)
def test_killed_while_it_computes_it_goes_on_to_the_same_bytes(starter, train, whole, place, fraction):
    out = place / "run"
    # From the first matches on, which are sampled where metrics.jsonl is still empty.
    call = {"call": "agon.rollout.batching:advance", "number": 1 + int(fraction * 220)}
    print(f"seed {SEED}: killed at {call}")
    _killed(train, out, call)
    _recovered(starter, train, out)
    require_same(out, whole)


def test_killed_again_and_again_it_goes_on_to_the_same_bytes(starter, train, whole, place):
    out = place / "run"
    _killed(train, out, {"event": "rename", "path": "/checkpoints/.step-000001"})
    for event, part in (("open", "optimizer-B"), ("rename", "checkpoints/.step-000002")):
        fault = {"at": {"event": event, "path": part}, "do": "kill"}
        assert starter.run("train", "--resume", "--out", out, cwd=place, faults=[fault]).code == -9
    _recovered(starter, train, out)
    require_same(out, whole)
    assert not leftovers(out)


def test_killed_by_its_own_program_it_goes_on_to_the_same_bytes(starter, whole, place):
    """A process that loaded everything for itself, killed from outside by no more than the time."""
    out = place / "run"
    killed = starter.start("train", "quickstart-agon", "--out", out, *TINY_WORDS, cwd=place, is_cold=True)
    wait_until(lambda: (out / "metrics.jsonl").exists(), "a first step")
    killed.send(9)
    assert killed.wait().code == -9
    assert starter.run("train", "--resume", "--out", out, cwd=place, is_cold=True).code == 0
    require_same(out, whole)


def test_killed_while_it_replaces_a_damaged_checkpoint_it_goes_on_to_the_same_bytes(starter, train, whole, place):
    out = place / "run"
    shutil.copytree(whole, out)
    (out / "checkpoints" / "step-000003" / "A" / "adapter_model.safetensors").write_bytes(b"")
    # The damaged folder is moved away, and the new one not yet in its place.
    fault = {"at": {"event": "rename", "path": "checkpoints/.step-000003"}, "do": "kill"}
    assert starter.run("train", "--resume", "--out", out, cwd=place, faults=[fault]).code == -9
    assert not (out / "checkpoints" / "step-000003").exists()
    _recovered(starter, train, out)
    require_same(out, whole)
    assert not leftovers(out)
