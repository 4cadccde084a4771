"""What works for a command is killed: a checker's process, the engine, the server itself."""

from __future__ import annotations

import json
import os
import signal
import socket

import pytest
from harness.folders import require_same
from harness.processes import processes_in, wait_until

PROBLEM = "12 7 5 = 24"


def _pairs(place, count):
    rows = [{"gold": f"{n}", "pred": f"{n}.0" if n % 2 else f"{n + 1}", "equal": bool(n % 2)} for n in range(count)]
    (place / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _workers(place, command, module="agon.verifiers.worker"):
    return [pid for pid, line in processes_in(place).items() if pid != command.pid and module in line]


def test_killed_checkers_are_replaced_and_no_verdict_changes(starter, place):
    _pairs(place, 400)
    words = ("verify", "math", "--pairs", "pairs.jsonl", "--json")
    undisturbed = starter.run(*words, cwd=place)
    assert json.loads(undisturbed.stdout)["agree"] == 400, undisturbed.told
    checking = starter.start(*words, cwd=place)
    killed = set()
    while not checking.is_over and len(killed) < 4:
        for pid in set(_workers(place, checking)) - killed:
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)
    ended = checking.wait()
    assert len(killed) >= 2, "checkers were killed"
    assert ended.code == 0, ended.told
    assert json.loads(ended.stdout)["agree"] == 400, ended.told


def test_killed_judges_of_programs_are_replaced_and_no_verdict_changes(starter, place):
    rows = [
        {
            "id": str(number),
            "prompt": "Add to a number.",
            "test_list": [f"assert add(2) == {number + 2}"],
            "code": f"def add(n):\n    return n + {number + number % 2}\n",
        }
        for number in range(60)
    ]
    (place / "task.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("verify", "code", "--task", "task.jsonl", "--solutions", "code", "--json")
    undisturbed = starter.run(*words, cwd=place)
    outcomes = json.loads(undisturbed.stdout)["outcomes"]
    if "error" in outcomes:
        pytest.skip("no sandbox for programs here: agon doctor says why")
    assert outcomes == {"correct": 30, "wrong": 30}, undisturbed.told
    checking = starter.start(*words, cwd=place)
    wait_until(lambda: _workers(place, checking, "agon.verifiers.code_worker") or checking.is_over, "programs are run")
    killed = _workers(place, checking, "agon.verifiers.code_worker")
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    ended = checking.wait()
    assert killed, "judges were killed"
    assert ended.code == undisturbed.code, ended.told
    assert json.loads(ended.stdout)["outcomes"] == outcomes


def test_checkers_whose_command_is_killed_end_too(starter, place):
    _pairs(place, 4000)
    checking = starter.start("verify", "math", "--pairs", "pairs.jsonl", cwd=place)
    wait_until(lambda: _workers(place, checking) or checking.is_over, "a checker works")
    checking.send(signal.SIGKILL)
    assert checking.wait().code == -9
    wait_until(lambda: not processes_in(place), "its checkers end", 20)


@pytest.mark.parametrize("text", ["CUDA error: unspecified launch failure", "the engine broke"])
def test_a_training_whose_engine_fails_says_so_and_goes_on_when_it_works_again(starter, train, whole, place, text):
    fail = {"at": {"call": "agon.rollout.batching:advance", "number": 150}, "do": "raise", "text": text}
    ended = train(place / "run", faults=[fail])
    assert ended.code == 1, ended.told
    assert text in ended.stderr
    if text.startswith("CUDA"):
        assert "continue with --resume" in ended.reason
    assert starter.run("train", "--resume", "--out", place / "run", cwd=place).code == 0
    require_same(place / "run", whole)


def test_a_server_whose_engine_fails_says_so_to_all_and_ends_when_asked(serving, measured):
    fail = {
        "at": {"call": "agon.rollout.torch_stepping:TorchSteppingEngine.step", "number": 30},
        "do": "raise",
        "text": "CUDA error: gone",
    }
    with serving(measured, faults=[fail]) as server:
        answers = [server.ask(PROBLEM, seed=seed) for seed in range(4)]
        assert answers[-1].status_code == 503
        assert "CUDA error: gone" in answers[-1].json()["error"]["message"]
        assert {answer.status_code for answer in answers} <= {200, 500, 503}
        assert server.get("/health").status_code == 503
        server.command.send(signal.SIGTERM)
        ended = server.command.wait()
        assert ended.code == 0, ended.told
        assert "Traceback" not in ended.told


def test_a_killed_server_leaves_its_port_and_its_run_as_they_were(serving, run):
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with serving(run) as server:
        port = server.port
        answer = server.asked_aside(PROBLEM, n=4)
        server.command.send(signal.SIGKILL)
        assert server.command.wait().code == -9
        assert answer.exception() is not None
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    with serving(run, port=port) as again:
        assert again.port == port
        assert again.ask(PROBLEM).status_code == 200


def test_a_server_does_not_take_a_port_that_is_taken(starter, run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = starter.run("serve", run, "--port", taken.getsockname()[1], cwd=run.parent)
    assert ended.code == 2
    assert "is taken: give another --port" in ended.reason
