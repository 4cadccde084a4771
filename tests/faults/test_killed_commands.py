"""SIGKILL to whatever measures, reports or exports: what was there stays, nothing half is taken for whole, and once more does it."""

from __future__ import annotations

import json
import random
import shutil

import pytest
from harness.folders import SEED, leftovers

_rng = random.Random(SEED)
WHILE_SAMPLING = [1 + _rng.randrange(60) for _ in range(3)]
CPU_SECONDS = [round(_rng.uniform(0.01, 0.6), 3) for _ in range(3)]
EVAL = ("eval", "--direction", "a-b", "--label", "again")


def _files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _run(starter, run, words, **options):
    return starter.run(words[0], run, *words[1:], cwd=run.parent, **options)


def _result(run, label):
    """Return a result without its times."""
    content = json.loads((run / "evaluations" / f"{label}.json").read_text())
    return {name: value for name, value in content.items() if name not in ("latency_s", "checksum")}


@pytest.fixture(scope="module")
def again(starter, measured, tmp_path_factory):
    """What the evaluation gives that is killed below."""
    run = tmp_path_factory.mktemp("again") / "run"
    shutil.copytree(measured, run)
    assert _run(starter, run, EVAL).code == 0
    return run


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6])
def test_an_evaluation_killed_as_it_writes_leaves_a_result_or_none(starter, run, again, number):
    fault = {"at": {"event": "any", "path": f"{run}/evaluations/", "number": number}, "do": "kill"}
    assert _run(starter, run, EVAL, faults=[fault]).code == -9
    reported = starter.run("report", run, cwd=run.parent)
    assert reported.code == 0, reported.told
    if (run / "evaluations" / "again.json").exists():
        assert _result(run, "again") == _result(again, "again")
    assert _run(starter, run, EVAL).code == 0
    assert _result(run, "again") == _result(again, "again")
    name = "evaluations/again.matches.jsonl.gz"
    assert (run / name).read_bytes() == (again / name).read_bytes()


@pytest.mark.parametrize("number", [3, 4, 5, 6])
def test_an_evaluation_killed_as_it_replaces_another_never_mixes_the_two(starter, run, number):
    """The same label at another temperature: a result of one is not shown with matches of the other."""
    before = _files(run / "evaluations")
    other = ("eval", "--set", "evaluation.temperature=1.5", "--label")
    label = next(path.stem for path in (run / "evaluations").glob("*.json"))
    fault = {"at": {"event": "any", "path": f"{run}/evaluations/", "number": number}, "do": "kill"}
    assert _run(starter, run, (*other, label), faults=[fault]).code == -9
    after = {name: data for name, data in _files(run / "evaluations").items() if not name.startswith(".")}
    changed = {name.removeprefix(label) for name in before if before[name] != after[name]}
    reported = starter.run("report", run, cwd=run.parent)
    if changed == {".matches.jsonl.gz"}:
        assert reported.code == 1
        assert f"{label}.matches.jsonl.gz" in reported.reason
    else:
        assert changed in (set(), {".json", ".matches.jsonl.gz"})
        assert reported.code == 0, reported.told
    assert _run(starter, run, (*other, label)).code == 0
    assert starter.run("report", run, cwd=run.parent).code == 0


@pytest.mark.parametrize("number", WHILE_SAMPLING)
def test_an_evaluation_killed_while_it_samples_leaves_the_folder_as_it_was(starter, run, number):
    before = _files(run)
    fault = {"at": {"call": "agon.rollout.batching:advance", "number": number}, "do": "kill"}
    assert _run(starter, run, EVAL, faults=[fault]).code == -9
    assert _files(run) == before


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_report_killed_as_it_writes_leaves_the_one_before_or_the_new_one(starter, run, number):
    page = (run / "report.html").read_bytes()
    fault = {"at": {"event": "any", "path": "report.html", "number": number}, "do": "kill"}
    killed = _run(starter, run, ("report",), faults=[fault])
    assert killed.code in (-9, 0)
    assert (run / "report.html").read_bytes() == page
    assert _run(starter, run, ("report",)).code == 0
    assert (run / "report.html").read_bytes() == page


@pytest.mark.parametrize("cpu_s", CPU_SECONDS)
def test_a_report_killed_at_any_time_leaves_the_one_before(starter, run, cpu_s):
    page = (run / "report.html").read_bytes()
    killed = _run(starter, run, ("report",), faults=[{"at": {"cpu_s": cpu_s}, "do": "kill"}])
    assert killed.code in (-9, 0)
    assert (run / "report.html").read_bytes() == page


@pytest.mark.parametrize("part", ["A/adapter_model", "B/tokenizer", "agon_export.json", ""])
def test_an_export_killed_as_it_writes_leaves_no_folder_that_could_be_taken_for_one(starter, measured, place, part):
    out = place / "out"
    event = "rename" if not part else "open"
    fault = {"at": {"event": event, "path": part or str(out.parent)}, "do": "kill"}
    words = ("export", measured, "--out", out)
    assert starter.run(*words, cwd=place, faults=[fault]).code == -9
    assert not out.exists()
    assert starter.run(*words, cwd=place).code == 0
    assert (out / "A" / "adapter_model.safetensors").is_file()


def test_a_resumed_run_clears_away_what_others_left_half_written(starter, run):
    for words, part in ((EVAL, "again.json"), (("report",), "report.html")):
        fault = {"at": {"event": "fsync", "path": part}, "do": "kill"}
        assert _run(starter, run, words, faults=[fault]).code == -9
    assert len(leftovers(run)) == 2
    assert starter.run("train", "--resume", "--out", run, cwd=run.parent).code == 0
    assert not leftovers(run)
