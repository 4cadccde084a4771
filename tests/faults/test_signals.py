"""SIGTERM, SIGINT, two of them, and SIGHUP: what runs saves or lets go, says so in one line, and goes on to the same bytes."""

from __future__ import annotations

import os
import signal

import pytest
from harness.folders import TINY_WORDS, leftovers, require_same
from harness.processes import wait_until

ENDINGS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
# Moments of a training: before its folder, while it samples, while it learns, and within a checkpoint.
LOADING = {"call": "agon.match.session:load_base"}
SAMPLING = {"call": "agon.rollout.batching:advance", "number": 130}
LEARNING = {"call": "agon.learner.learner:Learner._step", "number": 3}
SAVING = {"event": "open", "path": "optimizer-A", "number": 2}


def _names(values):
    return [getattr(value, "name", str(value)) for value in values]


def _interrupted(train, out, at, number, **options):
    return train(out, faults=[{"at": at, "do": "signal", "number": int(number), **options}])


def _resume(starter, out, whole):
    resumed = starter.run("train", "--resume", "--out", out, cwd=out.parent)
    assert resumed.code == 0, resumed.told
    require_same(out, whole)
    assert not leftovers(out)


@pytest.mark.parametrize("number", ENDINGS, ids=_names(ENDINGS))
@pytest.mark.parametrize("at", [SAMPLING, SAVING], ids=["sampling", "saving"])
def test_a_training_finishes_its_step_saves_and_goes_on(starter, train, whole, place, at, number):
    ended = _interrupted(train, place / "run", at, number)
    assert ended.code == 130, ended.told
    assert "saved; continue with --resume" in ended.reason
    _resume(starter, place / "run", whole)


@pytest.mark.parametrize("at", [SAMPLING, LEARNING, SAVING], ids=["sampling", "learning", "saving"])
def test_two_interrupts_end_a_training_at_once_and_it_goes_on(starter, train, whole, place, at):
    ended = _interrupted(train, place / "run", at, signal.SIGINT, times=2)
    assert ended.code == 130, ended.told
    assert ended.reason == "interrupted"
    _resume(starter, place / "run", whole)


@pytest.mark.parametrize("number", ENDINGS, ids=_names(ENDINGS))
def test_a_training_that_is_still_loading_leaves_nothing(train, place, number):
    ended = _interrupted(train, place / "run", LOADING, number)
    assert ended.code == 130, ended.told
    assert ended.reason == "interrupted"
    assert not (place / "run").exists()


def test_a_training_that_was_started_to_outlive_its_terminal_does(train, whole, place):
    hangup = {"at": SAMPLING, "do": "signal", "number": int(signal.SIGHUP)}
    ended = train(place / "run", faults=[hangup], ignored=[int(signal.SIGHUP)])
    assert ended.code == 0, ended.told
    require_same(place / "run", whole)


def test_a_training_whose_terminal_is_closed_saves_although_nobody_reads_what_it_says(starter, whole, place):
    """As when a window with a training in it is closed: first the signal, then every write to the terminal fails."""
    reached = place / "reached"
    pause = {"at": SAMPLING, "do": "pause", "reached": str(reached)}
    words = ("train", "quickstart-agon", "--out", place / "run", *TINY_WORDS)
    terminal, seen_by_it = os.openpty()
    training = starter.start(*words, cwd=place, faults=[pause], is_cold=True, terminal=seen_by_it)
    os.close(seen_by_it)
    wait_until(reached.exists, "it samples")
    os.close(terminal)
    training.send(signal.SIGHUP)
    (place / "reached.go").touch()
    assert training.wait().code == 130
    _resume(starter, place / "run", whole)


@pytest.mark.parametrize("number", ENDINGS, ids=_names(ENDINGS))
@pytest.mark.parametrize("words", [("eval", "--direction", "a-b"), ("eval", "--microscope")], ids=" ".join)
def test_a_measurement_ends_and_leaves_the_folder_as_it_was(starter, run, words, number):
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    fault = {"at": SAMPLING | {"number": 20}, "do": "signal", "number": int(number)}
    ended = starter.run(words[0], run, *words[1:], cwd=run.parent, faults=[fault])
    assert ended.code == 130, ended.told
    assert ended.reason == "interrupted"
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("number", ENDINGS, ids=_names(ENDINGS))
def test_a_server_lets_what_runs_come_to_its_end(serving, measured, number):
    with serving(measured) as server:
        answer = server.asked_aside("12 7 5 = 24", n=4)
        wait_until(lambda: "agon_matches_running 0" not in server.get("/metrics").text, "a match runs")
        server.command.send(number)
        assert answer.result().status_code == 200
        ended = server.command.wait()
        assert ended.code == 0, ended.told


def test_a_second_signal_ends_a_server_at_once(serving, measured, place):
    reached = place / "reached"
    hang = {
        "at": {"call": "agon.rollout.torch_stepping:TorchSteppingEngine.step", "number": 9},
        "do": "pause",
        "reached": str(reached),
    }
    with serving(measured, faults=[hang]) as server:
        answer = server.asked_aside("12 7 5 = 24")
        wait_until(reached.exists, "the engine hangs")
        server.command.send(signal.SIGINT)
        wait_until(lambda: "once more to end at once" in server.command.stderr, "it heard")
        server.command.send(signal.SIGINT)
        ended = server.command.wait()
        assert ended.code == 130, ended.told
        assert "Traceback" not in ended.told
        assert answer.exception() is not None or answer.result().status_code >= 500
