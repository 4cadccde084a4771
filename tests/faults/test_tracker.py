"""A tracker that delays, raises, hangs, is gone or is broken: the run gives the same bytes, and says what did not arrive."""

from __future__ import annotations

import json

import pytest
from harness.folders import content

# Stands for wandb and trackio: both are a module with these three functions.
SERVICE = """
import os, time, json, sys
HOW = os.environ["SERVICE"]
LOG = os.environ["SERVICE_LOG"]

def init(project, name, config):
    if HOW == "refuses": raise ConnectionError("no route\\nto host")
    if HOW == "exits": sys.exit("not logged in")
    if HOW == "asks": input("login: ")

def log(row):
    if HOW == "slow": time.sleep(0.5)
    if HOW == "hangs": time.sleep(3600)
    if HOW == "raises" or (HOW == "drops" and row["step"] == 1): raise TimeoutError("no answer")
    with open(LOG, "a") as file: file.write(json.dumps(row["step"]) + "\\n")

def finish():
    if HOW == "ends badly": raise OSError("flush failed")
"""
SAID = {
    "works": "",
    "slow": "",
    "drops": "did not take step 1 (TimeoutError: no answer)",
    "raises": "did not take step 0 (TimeoutError: no answer)",
    "refuses": "did not start (ConnectionError: no route to host)",
    "exits": "did not start (SystemExit: not logged in)",
    "asks": "did not start (EOFError",
    "ends badly": "did not end well (OSError: flush failed)",
}
ARRIVED = {"works": [0, 1, 2], "slow": [0, 1, 2], "drops": [0, 2], "ends badly": [0, 1, 2]}


@pytest.fixture
def tracked(train, place):
    """Return a function that trains with a stand-in for a tracker, and returns how that ended and which steps arrived."""
    modules = place / "modules"
    modules.mkdir()

    def run(backend, how, **options):
        (modules / f"{backend}.py").write_text(SERVICE)
        environment = {"SERVICE": how, "SERVICE_LOG": place / "arrived"}
        words = ("--set", f"tracking.backend={backend}")
        ended = train(place / "run", *words, environment=environment, path=[modules], **options)
        arrived = (place / "arrived").read_text().splitlines() if (place / "arrived").exists() else []
        return ended, [json.loads(line) for line in arrived]

    return run


def _require_same(run, whole):
    """All but the setting that names the tracker."""
    own, other = content(run), content(whole)
    assert own.keys() == other.keys()
    assert [name for name in own if own[name] != other[name]] == ["config.json"]


@pytest.mark.parametrize("how", SAID)
def test_a_run_is_the_same_whatever_its_tracker_does(tracked, whole, place, how):
    backend = "wandb" if how != "slow" else "trackio"
    ended, arrived = tracked(backend, how)
    assert ended.code == 0, ended.told
    assert "Traceback" not in ended.told
    assert SAID[how] in ended.stderr.replace("\n", " ")
    assert (f"warning: {backend} " in ended.stderr) == bool(SAID[how])
    assert arrived == ARRIVED.get(how, [])
    _require_same(place / "run", whole)


def test_a_tracker_that_hangs_is_given_up_at_the_end(tracked, whole, place):
    hurry = {
        "do": "set",
        "name": "agon.train.tracking:Detached.__init__.__kwdefaults__",
        "key": "patience_s",
        "value": 1.0,
    }
    ended, arrived = tracked("wandb", "hangs", faults=[hurry])
    assert ended.code == 0, ended.told
    assert "has not taken 3 of 3 steps" in ended.stderr
    assert arrived == []
    _require_same(place / "run", whole)


def test_a_tensorboard_that_cannot_be_imported_is_told(train, whole, place):
    modules = place / "modules"
    (modules / "tensorboard").mkdir(parents=True)
    (modules / "tensorboard" / "__init__.py").write_text("raise ImportError('built for another protobuf')")
    ended = train(place / "run", "--set", "tracking.backend=tensorboard", path=[modules])
    assert ended.code == 0, ended.told
    assert "warning: tensorboard did not start" in ended.stderr
    _require_same(place / "run", whole)


def test_a_killed_run_goes_on_without_the_tracker_that_is_gone(starter, tracked, whole, place):
    kill = {"at": {"event": "open", "path": "optimizer-A", "number": 2}, "do": "kill"}
    ended, arrived = tracked("wandb", "works", faults=[kill])
    assert ended.code == -9
    # What arrives, arrives in order; a busy machine may have sent nothing yet.
    assert arrived == [0, 1][: len(arrived)]
    words = ("train", "--resume", "--out", place / "run", "--set", "tracking.backend=none")
    assert starter.run(*words, cwd=place).code == 0
    _require_same(place / "run", whole)


def test_a_run_whose_tracker_is_not_installed_is_refused_before_anything_is_written(train, place):
    ended = train(place / "run", "--set", "tracking.backend=trackio")
    assert ended.code == 2
    assert 'pip install "agon-rl[trackio]"' in ended.reason
    assert not (place / "run").exists()
