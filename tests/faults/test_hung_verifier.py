"""A verifier of the user's own that never returns: a command that is told to end still does, with its folder and its port free."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest
from harness.folders import TINY_WORDS, leftovers
from harness.processes import wait_until

from agon.runs.lock import RunLock

EXAMPLES = Path(__file__).parents[2] / "examples"
# It hangs in every thread that asks it, once there is a file `hang` in the working folder.
VERIFIER = """
import time
from pathlib import Path

from agon.records import Verdict


def judge(problem, answer):
    if Path("hang").exists():
        Path("asked").touch()
        while True:
            time.sleep(1)
    return Verdict("wrong", 0.0, "never right", answer, problem.gold)
"""
OWN = ("--set", "task.name=own_task:rows", "--set", "task.verifier=hanging:judge", "--set", "alarms.steps=100")


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    """The folders in which the task and the verifier are found."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "hanging.py").write_text(VERIFIER)
    return [folder, EXAMPLES]


@pytest.fixture(scope="module")
def judged(train, modules, tmp_path_factory):
    """A run whose verifier did not hang. Nobody may write into it."""
    out = tmp_path_factory.mktemp("judged") / "run"
    ended = train(out, *OWN, path=modules)
    assert ended.code == 0, ended.told
    return out


@pytest.fixture
def hanging(judged, place):
    """A copy of the run, in a folder in which the verifier hangs."""
    shutil.copytree(judged, place / "run")
    (place / "hang").touch()
    return place / "run"


def _require_free(run):
    RunLock(run).release()
    assert not leftovers(run)


def _interrupt(command, place, number):
    wait_until(lambda: (place / "asked").exists() or command.is_over, "the verifier hangs")
    command.send(number)


@pytest.mark.parametrize("is_cold", [False, True], ids=["forked", "program"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_the_second_interrupt_ends_a_training(starter, modules, place, number, is_cold):
    (place / "hang").touch()
    words = ("train", "quickstart-agon", "--out", place / "run", *TINY_WORDS, *OWN)
    training = starter.start(*words, cwd=place, path=modules, is_cold=is_cold)
    _interrupt(training, place, number)
    wait_until(lambda: "interrupt again to stop at once" in training.stderr, "it heard")
    assert not training.is_over, "the first lets the step come to its end"
    training.send(number)
    ended = training.wait(60)
    assert ended.code == 130, ended.told
    assert ended.reason == "interrupted"
    _require_free(place / "run")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_an_interrupt_ends_an_evaluation(starter, modules, hanging, place, number):
    before = {path: path.read_bytes() for path in hanging.rglob("*") if path.is_file()}
    evaluation = starter.start("eval", hanging, "--direction", "a-b", cwd=place, path=modules)
    _interrupt(evaluation, place, number)
    ended = evaluation.wait(60)
    assert ended.code == 130, ended.told
    assert ended.reason == "interrupted"
    assert {path: path.read_bytes() for path in hanging.rglob("*") if path.is_file()} == before
    _require_free(hanging)


def test_an_interrupt_ends_a_judging_of_what_is_stored(starter, modules, hanging, place):
    judging = starter.start("verify", "run", hanging, cwd=place, path=modules)
    _interrupt(judging, place, signal.SIGINT)
    ended = judging.wait(60)
    assert ended.code == 130, ended.told
    assert ended.reason == "interrupted"


def test_a_server_ends_when_its_grace_is_over(serving, modules, hanging, place):
    with serving(hanging, "--grace", 1, path=modules) as server:
        answer = server.asked_aside("12 7 5 = 24", gold="24")
        _interrupt(server.command, place, signal.SIGTERM)
        ended = server.command.wait(60)
        assert ended.code == 0, ended.told
        assert "Traceback" not in ended.told
        assert answer.exception() is not None or answer.result().status_code >= 500
        port = server.port
    with serving(hanging, port=port, path=modules) as again:
        assert again.port == port


def test_a_second_signal_ends_a_server_at_once(serving, modules, hanging, place):
    with serving(hanging, path=modules) as server:
        server.asked_aside("12 7 5 = 24", gold="24")
        _interrupt(server.command, place, signal.SIGINT)
        wait_until(lambda: "once more to end at once" in server.command.stderr, "it heard")
        server.command.send(signal.SIGINT)
        ended = server.command.wait(60)
        assert ended.code == 130, ended.told
        assert "Traceback" not in ended.told
