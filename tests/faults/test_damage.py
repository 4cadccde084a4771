"""Every file of a run, emptied, cut in half and with a bit flipped, before every command that reads it.

A command says the same as without the damage, or it says which file is damaged. What it may never do is to say something else.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from harness.folders import LAST, damage, require_same
from harness.processes import wait_until

PROBLEM = "12 7 5 = 24"
EARLIER = "step-000002"
SETTINGS = ("manifest.json", "config.json")
EVALUATION = "evaluations/countdown-lite-test-cascade-a-b"
MATCHES = ("matches/step-000000.jsonl.gz", "matches/step-000002.jsonl.gz")
ADAPTERS = tuple(f"{name}/{file}" for name in "AB" for file in ("adapter_config.json", "adapter_model.safetensors"))
CHECKPOINT = (*ADAPTERS, "complete.json", "optimizer-A.safetensors", "optimizer-B.safetensors", "state.json")
LAST_CHECKPOINT = tuple(f"checkpoints/{LAST}/{file}" for file in CHECKPOINT)
# What is read of a run that was stopped after its second step, when it goes on.
STOPPED_CHECKPOINT = tuple(f"checkpoints/{EARLIER}/{file}" for file in CHECKPOINT)
REPORTED = ("alarms.jsonl", "microscope.json")
RESULTS = (f"{EVALUATION}.json", f"{EVALUATION}.matches.jsonl.gz")

COMMANDS = {
    "resume": ("train", "--resume", "--out", "run"),
    "eval": ("eval", "run", "--direction", "a-b", "--label", "again", "--json"),
    "solve": ("solve", "run", PROBLEM, "--json"),
    "serve": ("serve", "run", "--port", "0"),
    "export": ("export", "run", "--out", "exported"),
    "report": ("report", "run", "--out", "report.html"),
    "compare": ("compare", "run", "--json"),
    "doctor": ("doctor", "run", "whole", "--json"),
    "verify": ("verify", "run", "run", "--json"),
}
READ = {
    "resume": (*SETTINGS, *STOPPED_CHECKPOINT, "metrics.jsonl", "timings.jsonl", "alarms.jsonl"),
    "eval": (*SETTINGS, *LAST_CHECKPOINT),
    "solve": (*SETTINGS, *LAST_CHECKPOINT, RESULTS[0]),
    "serve": (*SETTINGS, *LAST_CHECKPOINT, RESULTS[0]),
    "export": (*SETTINGS, *LAST_CHECKPOINT, RESULTS[0]),
    "report": (
        *SETTINGS,
        "metrics.jsonl",
        "timings.jsonl",
        *REPORTED,
        *RESULTS,
        MATCHES[1],
        f"checkpoints/{LAST}/complete.json",
    ),
    "compare": (*SETTINGS, "metrics.jsonl", RESULTS[0], f"checkpoints/{LAST}/complete.json"),
    "doctor": (*SETTINGS, "data.json", "metrics.jsonl", f"checkpoints/{LAST}/complete.json"),
    "verify": (*SETTINGS, *MATCHES, RESULTS[1]),
}
# The same files with the same readers behind them: a part of the damages is enough.
SPARSE = {"solve": ("flipped",), "serve": ("flipped",), "export": ("cut", "flipped")}
CASES = [
    (command, file, kind)
    for command, files in READ.items()
    for file in files
    for kind in SPARSE.get(command, ("emptied", "cut", "flipped"))
]


@pytest.fixture(scope="module")
def stopped(measured, tmp_path_factory) -> Path:
    """The run as it is when it was killed in its last step, after its metrics and before its checkpoint."""
    out = tmp_path_factory.mktemp("stopped") / "run"
    shutil.copytree(measured, out)
    shutil.rmtree(out / "checkpoints" / LAST)
    shutil.rmtree(out / "evaluations")
    (out / "microscope.json").unlink()
    return out


@pytest.fixture(scope="module")
def undamaged(starter, measured, stopped, tmp_path_factory):
    """Return a function from a command's name to what it says of the run as it is, the files of the run that it reads, and its lines."""
    known: dict[str, tuple[object, set[str], set[str]]] = {}

    def outcome(command):
        if command not in known:
            place = tmp_path_factory.mktemp(command)
            _lay_out(place, command, measured, stopped)
            watched = {"at": {"event": "read", "path": f"{place}/run/"}, "do": "record", "file": str(place / "log")}
            there = {
                path.relative_to(place / "run").as_posix() for path in (place / "run").rglob("*") if path.is_file()
            }
            ended, said = _carry_out(starter, command, place, faults=[watched])
            assert ended.code == 0, ended.told
            lines = (place / "log").read_text().splitlines()
            paths = {json.loads(line)[1].removeprefix(f"{place}/run/") for line in lines}
            known[command] = said, paths & there, set(ended.told.splitlines())
        return known[command]

    return outcome


def _lay_out(place, command, measured, stopped):
    shutil.copytree(stopped if command == "resume" else measured, place / "run")
    (place / "whole").symlink_to(measured)


def _carry_out(starter, command, place, faults=()):
    """Carry a command out, and return how it ended with all that it said or wrote for others to read."""
    running = starter.start(*COMMANDS[command], cwd=place, faults=faults)
    if command == "serve":
        wait_until(lambda: " at http://" in running.stdout or running.is_over, "it listens or ends")
        if not running.is_over:
            running.send(15)
        ended = running.wait()
        return ended, ended.code
    ended = running.wait()
    match command:
        case "resume" | "eval" | "solve" | "compare" | "doctor":
            said = ended.stdout
        case "export":
            said = {
                path.relative_to(place).as_posix(): path.read_bytes()
                for path in (place / "exported").rglob("*")
                if path.is_file()
            }
        case "report":
            said = (place / "report.html").read_bytes() if (place / "report.html").exists() else None
        case _:
            said = {name: json.loads(ended.stdout)[name] for name in ("outcomes", "changes")} if ended.stdout else None
    return ended, said


@pytest.mark.parametrize("command", COMMANDS)
def test_these_are_the_files_that_a_command_reads(undamaged, command):
    _, read, _ = undamaged(command)
    assert read - {"run.lock", "report.html"} == set(READ[command])


def test_no_file_of_a_run_is_left_out(measured):
    there = {path.relative_to(measured).as_posix() for path in measured.rglob("*") if path.is_file()}
    # The lock is damaged in test_two_processes; nobody reads the report back, nor the earlier checkpoint of a finished run.
    others = {name for name in there if name.startswith(f"checkpoints/{EARLIER}/")} | {"run.lock", "report.html"}
    assert there - others == {name for names in READ.values() for name in names} - others


def _is_told(file, lines):
    """Whether any of these lines says that the file is damaged, by its name or that of its checkpoint."""
    parts = file.split("/")
    names = {parts[-1], "(checkpoint damaged)", *(parts[1:2] if parts[0] == "checkpoints" else ())}
    return any(name in line for name in names for line in lines)


@pytest.mark.parametrize(("command", "file", "kind"), CASES)
def test_a_damaged_file_is_told_or_changes_nothing(
    starter, whole, measured, stopped, undamaged, place, command, file, kind
):
    expected, _, usual = undamaged(command)
    _lay_out(place, command, measured, stopped)
    damage(place / "run" / file, kind, f"{command} {file}")
    ended, said = _carry_out(starter, command, place)
    assert "Traceback" not in ended.told, ended.told
    if ended.code == 0:
        lines = set(ended.told.splitlines()) - usual
        # A report says on its page what its times lack.
        is_told = _is_told(file, lines) or (command == "report" and b"timings.jsonl is damaged" in said)
        assert said == expected or is_told, f"{command} said something else: {ended.told}"
        if command == "resume":
            require_same(place / "run", whole)
        return
    assert ended.code == 1, ended.told
    assert _is_told(file, ended.told.splitlines() if command == "verify" else [ended.reason]), ended.told
