from __future__ import annotations

import gzip
import hashlib
from dataclasses import replace

import pytest

from agon.audit.stored import NUM_SLOWEST, Wanted, audit_run
from agon.config import Settings
from agon.errors import ConfigError, RunError
from agon.records import Attempt, Completion, Match, Problem, Prompt, Verdict
from agon.runs import RunFolder, create_parent, write_evaluation


def attempt(role, answer, outcome, *, stop="stop"):
    completion = Completion((5,), (-0.1,), f"<answer>{answer}</answer>", stop, "A", 0)
    return Attempt(role, "A", Prompt((1,), "q"), completion, Verdict(outcome, 0.0), 1.0)


def match(*drafts, challenge=None):
    problem = Problem("id1", "What is 3 + 4?", "7", "toy", "numeric")
    return Match(problem, 0, tuple(drafts), challenge=challenge)


RIGHT = match(attempt("drafter", "7", "correct"), challenge=attempt("challenger", "8", "wrong"))


def new_run(path, *, matches=None, evaluations=None):
    with RunFolder.create(path, settings=Settings().model_dump(mode="json")) as folder:
        for step, rows in (matches or {}).items():
            folder.write_matches(step, rows)
        for label, rows in (evaluations or {}).items():
            write_evaluation(path, label, {}, rows)
    return path


def audit(path, *, steps=(), labels=(), num_examples=3):
    return audit_run(
        path, wanted=Wanted(steps, labels), overrides=(), num_examples=num_examples, progress=lambda done: None
    )


def test_verdicts_that_still_hold_are_no_change(tmp_path):
    found = audit(new_run(tmp_path / "run", matches={0: [RIGHT, RIGHT]}, evaluations={"x": [RIGHT]})).to_json()
    # three matches of a draft and a challenge each
    assert (found["files"], found["checked"], found["changed"]) == (2, 6, 0)
    assert found["outcomes"] == {"stored": {"correct": 3, "wrong": 3}, "now": {"correct": 3, "wrong": 3}}
    assert found["changes"] == found["damaged"] == []


def test_a_change_is_told_with_its_place_and_what_was_compared(tmp_path):
    odd = match(attempt("drafter", "8", "wrong"), attempt("drafter", "8", "correct"))
    capped = match(attempt("drafter", "7", "correct", stop="length"))
    run = new_run(tmp_path / "run", matches={0: [RIGHT], 4: [RIGHT, odd, odd, capped]})
    found = audit(run, num_examples=1).to_json()
    assert found["changed"] == 3
    assert [(change["from"], change["to"], change["count"]) for change in found["changes"]] == [
        ("correct", "wrong", 2),
        ("correct", "truncated", 1),
    ]
    (example,) = found["changes"][0]["examples"]
    assert example["file"].endswith("step-000004.jsonl.gz")
    # files are checked by several threads: either of the two may be the first
    assert example["line"] in (2, 3)
    assert (example["stage"], example["problem"], example["stored"], example["now"]) == (
        "draft 2",
        "id1",
        "correct",
        "wrong",
    )
    assert (example["gold"], example["answer"], example["reason"]) == ("7", "8", "other number")


def test_the_drafts_of_earlier_layers_are_checked_too(tmp_path):
    layered = replace(match(attempt("drafter", "7", "correct")), earlier=(attempt("drafter", "8", "correct"),))
    found = audit(new_run(tmp_path / "run", matches={0: [layered]})).to_json()
    assert (found["checked"], found["changed"]) == (2, 1)
    assert found["changes"][0]["examples"][0]["stage"] == "earlier draft 1"


def test_the_slowest_checks_come_first(tmp_path):
    rows = [match(attempt("drafter", str(number), "wrong")) for number in range(10, 40)]
    slowest = audit(new_run(tmp_path / "run", matches={0: rows})).to_json()["slowest"]
    seconds = [place["seconds"] for place in slowest]
    assert len(seconds) == NUM_SLOWEST
    assert seconds == sorted(seconds, reverse=True)


def test_steps_and_labels_choose_the_files(tmp_path):
    run = new_run(tmp_path / "run", matches={0: [RIGHT], 4: [RIGHT]}, evaluations={"x": [RIGHT], "y": [RIGHT]})
    assert audit(run).num_files == 4
    assert audit(run, steps=[4]).num_files == 1
    assert audit(run, labels=["x"]).num_files == 1
    assert audit(run, steps=[0, 4], labels=["y"]).num_files == 3
    with pytest.raises(RunError, match=r"no matches of step 7: choose of --step 0, 4; --label x, y$"):
        audit(run, steps=[4, 7])
    with pytest.raises(RunError, match="no matches of evaluation 'z'"):
        audit(run, labels=["x", "z"])


def test_a_damaged_file_is_named_and_the_others_are_checked(tmp_path):
    run = new_run(tmp_path / "run", matches={0: [RIGHT] * 50, 4: [RIGHT], 8: [RIGHT]})
    cut = run / "matches" / "step-000000.jsonl.gz"
    cut.write_bytes(cut.read_bytes()[:-9])
    (run / "matches" / "step-000004.jsonl.gz").write_bytes(gzip.compress(b'{"problem": 3}\n'))
    found = audit(run)
    assert [damage.file.rpartition("/")[2] for damage in found.damaged] == [
        "step-000000.jsonl.gz",
        "step-000004.jsonl.gz",
    ]
    assert "line 1" in found.damaged[1].reason
    # what stands before the damage counts as well
    assert found.num_checked >= 2


def test_settings_that_cannot_be_read_are_damage_of_that_run_alone(tmp_path):
    parent = tmp_path / "parent"
    create_parent(parent, children=["one", "two"], default="one")
    for name in ("one", "two"):
        new_run(parent / name, matches={0: [RIGHT]})
    (parent / "one" / "config.json").write_text('{"train": {"stepz": 3}}')
    found = audit(parent)
    assert found.num_checked == 2
    ((file, reason),) = found.damaged
    assert file.endswith("one")
    assert "stepz" in reason


def test_an_override_that_cannot_be_used_is_no_damage(tmp_path):
    run = new_run(tmp_path / "run", matches={0: [RIGHT]})
    with pytest.raises(ConfigError, match="workers is 0"):
        audit_run(run, wanted=Wanted(), overrides=["verifier.workers=0"], num_examples=3, progress=lambda done: None)


def test_nothing_but_damage_is_an_error(tmp_path):
    run = new_run(tmp_path / "run", matches={0: [RIGHT]})
    (run / "matches" / "step-000000.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(RunError, match=r"step-000000\.jsonl\.gz"):
        audit(run)


def test_every_run_of_a_parent_folder_is_checked(tmp_path):
    parent = tmp_path / "parent"
    create_parent(parent, children=["one", "two", "later"], default="one")
    new_run(parent / "one", matches={0: [RIGHT]})
    new_run(parent / "two", matches={0: [RIGHT]})
    found = audit(parent)
    assert [run.rpartition("/")[2] for run in found.runs] == ["one", "two"]
    assert found.num_checked == 4


def test_a_folder_without_matches_or_without_a_run_is_refused(tmp_path):
    with pytest.raises(RunError, match="holds no matches"):
        audit(new_run(tmp_path / "run"))
    with pytest.raises(RunError, match="no-such"):
        audit(tmp_path / "no-such")


def test_nothing_in_the_run_folder_is_changed(tmp_path):
    run = new_run(tmp_path / "run", matches={0: [RIGHT]}, evaluations={"x": [RIGHT]})

    def state():
        return {
            path: (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "")
            for path in run.rglob("*")
        }

    before = state()
    audit(run)
    assert state() == before
