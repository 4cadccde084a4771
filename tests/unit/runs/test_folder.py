import json
import os
import subprocess
import sys

import pytest

from agon.errors import RunError
from agon.runs import (
    RunFolder,
    changes_since,
    match_files,
    newest_checkpoint,
    read_alarms,
    read_config,
    read_evaluations,
    read_json,
    read_manifest,
    read_matches,
    read_metrics,
    read_timings,
    write_evaluation,
)
from agon.runs.evaluations import evaluation_matches_path
from agon.runs.lock import RunLock
from agon.runs.manifest import write_json


def test_a_new_run_holds_versions_hashes_and_settings_without_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hush-hush-hush")
    settings = {"task": {"path": "hub://hush-hush-hush"}, "tracking": {"api_key": "k"}}
    with RunFolder.create(tmp_path / "r", settings=settings, hashes={"base": "abc"}) as run:
        assert read_config(run.path) == {"task": {"path": "hub://[redacted]"}, "tracking": {"api_key": "[redacted]"}}
        manifest = read_manifest(run.path)
    assert manifest["format_version"] == 1
    assert manifest["hashes"] == {"base": "abc"}
    assert {"agon", "python", "torch", "transformers", "peft"} <= manifest["versions"].keys()
    for file in (tmp_path / "r").rglob("*"):
        assert not file.is_file() or b"hush-hush" not in file.read_bytes()


def test_what_is_written_is_read_back(run, match):
    run.write_metrics({"step": 0, "drafter": "A", "draft/accuracy": 0.25})
    run.write_timings({"step": 0, "rollout_s": 1.5})
    run.write_matches(0, [match])
    write_evaluation(run.path, "agon-b-a", {"label": "Agon, B answers", "accuracy": 0.5}, [match])
    assert read_metrics(run.path) == [{"step": 0, "drafter": "A", "draft/accuracy": 0.25}]
    assert read_timings(run.path) == [{"step": 0, "rollout_s": 1.5}]
    assert [list(read_matches(path)) for path in match_files(run.path)] == [[match]]
    (result,) = read_evaluations(run.path)
    assert (result["label"], result["accuracy"]) == ("Agon, B answers", 0.5)
    assert list(read_matches(evaluation_matches_path(run.path, "agon-b-a"))) == [match]


@pytest.mark.parametrize("label", ["", "a/b", "../x", ".hidden", "a b", "x" * 101])
def test_an_evaluation_label_that_is_no_file_name_is_refused(run, label):
    with pytest.raises(RunError, match="cannot be a file name"):
        write_evaluation(run.path, label, {})


def test_a_folder_with_something_in_it_is_not_overwritten(run, tmp_path):
    run.close()
    with pytest.raises(RunError, match=r"run is not empty .*: continue it with --resume, or give another --out"):
        RunFolder.create(run.path, settings={})
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("")
    with pytest.raises(RunError, match=r"photos is not empty \(cat\.jpg\): give another --out"):
        RunFolder.create(tmp_path / "photos", settings={})
    # A model folder has a config.json too: it is not an unfinished start of ours.
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    with pytest.raises(RunError, match="is not empty"):
        RunFolder.create(tmp_path / "model", settings={})


def test_an_empty_folder_and_an_interrupted_start_are_used(tmp_path):
    (tmp_path / "r").mkdir()
    with RunFolder.create(tmp_path / "r", settings={}) as run:
        pass
    (run.path / "manifest.json").unlink()
    RunFolder.create(tmp_path / "r", settings={}).close()


def test_what_a_killed_start_left_half_written_is_removed_by_the_next(tmp_path):
    with RunFolder.create(tmp_path / "r", settings={}, data={"source": "made up"}) as run:
        pass
    (run.path / "manifest.json").rename(run.path / ".manifest.json.agon-tmp-0a1b2c3d")
    RunFolder.create(tmp_path / "r", settings={}).close()
    assert not [path.name for path in run.path.iterdir() if path.name.startswith(".")]


def test_a_run_that_is_one_has_the_account_of_its_data(tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    def kill(run, hashes, machine):
        raise Killed

    monkeypatch.setattr("agon.runs.folder.write_manifest", kill)
    with pytest.raises(Killed):
        RunFolder.create(tmp_path / "r", settings={}, data={"source": "made up"})
    assert json.loads((tmp_path / "r" / "data.json").read_text())["source"] == "made up"


def test_a_run_that_another_process_began_and_ended_meanwhile_is_not_overwritten(tmp_path, monkeypatch):
    """Between the first look at the folder and the lock."""
    locks = []

    def lock(path):
        if not locks:
            locks.append(path)
            RunFolder.create(path, settings={"train": {"seed": 1}}).close()
        return RunLock(path)

    monkeypatch.setattr("agon.runs.folder.RunLock", lock)
    with pytest.raises(RunError, match="is not empty"):
        RunFolder.create(tmp_path / "r", settings={"train": {"seed": 2}})
    assert read_config(tmp_path / "r")["train"] == {"seed": 1}


def test_a_file_in_the_place_of_the_folder_is_one_line(tmp_path):
    (tmp_path / "r").write_text("")
    with pytest.raises(RunError, match="a part of the path is a file: give another folder"):
        RunFolder.create(tmp_path / "r", settings={})
    with pytest.raises(RunError, match="a part of the path is a file"):
        RunFolder.create(tmp_path / "r" / "inner", settings={})


def test_a_folder_that_is_no_run_is_refused_with_what_would_be_right(tmp_path):
    with pytest.raises(RunError, match=r"is not a run folder .*: give the --out folder of an `agon train`"):
        RunFolder.open(tmp_path)
    with pytest.raises(RunError, match="does not exist"):
        RunFolder.open(tmp_path / "absent")


@pytest.mark.parametrize(
    ("version", "remedy"),
    [
        (2, r"has format version 2, and agon \S+ reads no newer one than 1: upgrade agon to 9\.9\.9 or newer"),
        (10**30, r"reads no newer one than 1: upgrade agon to 9\.9\.9 or newer"),
        (0, r"has format version 0, and agon \S+ reads none before 1: use agon 9\.9\.9, or train again"),
        ("1", r"names no format version \('1'\): restore it"),
        (None, r"names no format version \(None\): restore it"),
        (1.0, "names no format version"),
        (True, "names no format version"),
        ([], "names no format version"),
    ],
)
def test_a_run_of_another_format_version_is_refused_with_the_remedy(run, version, remedy):
    manifest = read_json(run.path / "manifest.json")
    manifest["format_version"] = version
    manifest["versions"]["agon"] = "9.9.9"
    (run.path / "manifest.json").write_text(json.dumps(manifest))
    run.close()
    with pytest.raises(RunError, match=remedy):
        RunFolder.open(run.path)


def test_a_newer_run_that_does_not_say_what_wrote_it_asks_for_an_upgrade_all_the_same(run):
    (run.path / "manifest.json").write_text('{"format_version": 3, "versions": null}')
    run.close()
    with pytest.raises(RunError, match=r"reads no newer one than 1: upgrade agon$"):
        read_config(run.path)


def test_a_manifest_of_something_else_is_refused(run):
    manifest = read_json(run.path / "manifest.json")
    (run.path / "manifest.json").write_text(json.dumps({**manifest, "format": "agon parent"}))
    with pytest.raises(RunError, match=r"manifest\.json says that it is 'agon parent' and not 'agon run'"):
        read_config(run.path)


@pytest.mark.parametrize("name", ["evaluations", "matches", "checkpoints"])
def test_nothing_is_written_through_a_link_that_leads_out_of_the_folder(run, tmp_path, name):
    (run.path / name).rmdir()
    (tmp_path / "elsewhere").mkdir()
    (run.path / name).symlink_to(tmp_path / "elsewhere")
    run.close()
    with pytest.raises(RunError, match=rf"{name} is a link to .*elsewhere, outside of the run folder"):
        RunFolder.open(run.path)
    if name == "evaluations":
        with pytest.raises(RunError, match="outside of the run folder"):
            write_evaluation(run.path, "x", {})
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_run_folder_may_be_a_link_and_links_within_it_are_followed(run, tmp_path):
    (run.path / "evaluations").rename(run.path / "kept")
    (run.path / "evaluations").symlink_to("kept")
    run.close()
    (tmp_path / "link").symlink_to(run.path)
    with RunFolder.open(tmp_path / "link"):
        write_evaluation(tmp_path / "link", "x", {"accuracy": 0.5})
    assert (run.path / "kept" / "x.json").exists()


SECRETS = ("hf_" + "a1B2" * 9, "password1", "0123456789abcdef")


def test_no_secret_reaches_a_file_of_a_run(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", SECRETS[2])
    said = f"GET https://me:{SECRETS[1]}@host/x failed: {{'Authorization': 'Bearer {SECRETS[0]}'}} with {SECRETS[2]}"
    settings = {"tracking": {"project": said, "api_key": SECRETS[1]}}
    with RunFolder.create(tmp_path / "run", settings=settings, hashes={"base": said}, data={"source": said}) as run:
        run.write_alarm({"name": "engine", "step": 0, "message": said})
        write_evaluation(run.path, "x", {"notes": [said], "accuracy": 0.5})
        write_json(run.path / "microscope.json", {"alarms": [{"message": said}]})
    files = [path for path in run.path.rglob("*") if path.is_file()]
    assert {"config.json", "manifest.json", "data.json", "alarms.jsonl", "x.json"} <= {path.name for path in files}
    for path in files:
        assert not [secret for secret in SECRETS if secret in path.read_text()], path.name
    assert "failed" in (run.path / "alarms.jsonl").read_text()


@pytest.mark.parametrize("table", ["versions", "hashes"])
def test_a_manifest_without_its_tables_is_one_line(run, table):
    manifest = read_json(run.path / "manifest.json") | {table: None}
    (run.path / "manifest.json").write_text(json.dumps(manifest))
    run.close()
    with pytest.raises(RunError, match=rf"manifest\.json holds no table '{table}'"):
        RunFolder.open(run.path)


@pytest.mark.parametrize("content", ["", "{", "[]", "\x00\x01", "[" * 100_000, '{"format_version": NaN}'])
def test_a_damaged_manifest_is_one_line(run, content):
    (run.path / "manifest.json").write_text(content)
    run.close()
    with pytest.raises(RunError, match=r"manifest\.json") as caught:
        RunFolder.open(run.path)
    assert "\n" not in str(caught.value)


def test_opening_clears_what_a_killed_process_left(run, save):
    save(2)
    for folder in ("", "checkpoints", "matches"):
        (run.path / folder / ".x.agon-tmp-12345678").mkdir()
    run.close()
    RunFolder.open(run.path).close()
    assert not list(run.path.rglob(".*agon-tmp*"))
    assert newest_checkpoint(run.path).path is not None


def test_rewinding_drops_what_came_after_the_checkpoint(run, match):
    for step in range(6):
        run.write_metrics({"step": step})
        run.write_timings({"step": step})
        run.write_matches(step, [match])
    for step in (1, 2, 2, 3):
        run.write_alarm({"step": step, "name": "truncated"})
    run.rewind(3)
    assert [row["step"] for row in read_metrics(run.path)] == [0, 1, 2]
    assert [row["step"] for row in read_timings(run.path)] == [0, 1, 2]
    assert [row["step"] for row in read_alarms(run.path)] == [1, 2, 2]
    assert [path.name for path in match_files(run.path)] == [f"step-{step:06d}.jsonl.gz" for step in (0, 1, 2)]


def test_matches_beyond_the_limit_of_a_run_are_not_kept_which_is_said_once(run, match):
    said: list[str] = []
    run.write_metrics({"step": 0})
    file = run.write_matches(0, [match])
    one = file.stat().st_size
    run.limit_matches(2 * one + 1, say=said.append)
    assert [run.write_matches(step, [match]) is not None for step in (1, 2, 3)] == [True, False, False]
    assert [path.name for path in match_files(run.path)] == [f"step-{step:06d}.jsonl.gz" for step in (0, 1)]
    (line,) = said
    assert "the matches of step 2 are not kept" in line
    assert "train.max_matches_gb" in line
    # A run that goes on from before them has the same room again.
    run.rewind(1)
    assert [run.write_matches(step, [match]) is not None for step in (1, 2)] == [True, False]


def test_the_lock_is_held_until_the_run_is_closed(run):
    with pytest.raises(RunError, match=f"in use by process {os.getpid()}"):
        RunFolder.open(run.path)
    run.close()
    RunFolder.open(run.path).close()


def test_changed_versions_are_told(run):
    assert changes_since(run.path) == []
    manifest = read_json(run.path / "manifest.json")
    manifest["versions"] |= {"peft": "0.1", "apex": "1"}
    (run.path / "manifest.json").write_text(json.dumps(manifest))
    changes = changes_since(run.path)
    assert changes[0] == "apex 1 -> absent"
    assert changes[1].startswith("peft 0.1 -> ")


def test_another_machine_is_told_where_the_run_says_which_it_was(tmp_path):
    with RunFolder.create(tmp_path / "run", settings={}, machine={"device": "cpu", "threads": "1"}) as run:
        assert changes_since(run.path, {"device": "cpu", "threads": "1"}) == []
        assert changes_since(run.path, {"device": "H200", "threads": "1", "cuda": "12"}) == [
            "cuda absent -> 12",
            "device cpu -> H200",
        ]
        assert changes_since(run.path) == []
    with RunFolder.create(tmp_path / "older", settings={}) as older:
        assert changes_since(older.path, {"device": "cpu"}) == []


def test_a_run_is_read_and_written_without_torch():
    code = "import sys, agon.runs, agon.stats, agon.report; assert not {'torch', 'transformers', 'peft'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_metrics_that_are_not_what_a_checkpoint_was_saved_with_are_not_read(run, save):
    for step in range(3):
        run.write_metrics({"step": step, "draft/accuracy": 0.25})
    save(3)
    run.write_metrics({"step": 3, "draft/accuracy": 0.5})
    assert len(read_metrics(run.path)) == 4
    path = run.path / "metrics.jsonl"
    whole = path.read_bytes()
    for damaged in (whole.replace(b"0.25", b"0.35", 1), whole[: len(whole) // 2], b""):
        path.write_bytes(damaged)
        with pytest.raises(RunError, match=r"metrics\.jsonl is not what it was when checkpoint step-000003 was saved"):
            read_metrics(run.path)
    # What came after the checkpoint is vouched for by nobody.
    path.write_bytes(whole.replace(b"0.5", b"0.7"))
    assert read_metrics(run.path)[3]["draft/accuracy"] == 0.7


def test_alarms_that_are_not_what_a_checkpoint_was_saved_with_are_not_read(run, save):
    run.write_alarm({"step": 0, "name": "truncation"})
    save(1)
    (run.path / "alarms.jsonl").unlink()
    with pytest.raises(RunError, match=r"alarms\.jsonl is not what it was"):
        read_alarms(run.path)


def test_a_run_that_goes_on_from_an_earlier_checkpoint_drops_the_later_ones(run, save):
    for step in range(2):
        run.write_metrics({"step": step})
        save(step + 1)
    (run.path / "checkpoints" / "step-000002" / "state.json").write_text("damaged")
    run.rewind(1)
    assert [row["step"] for row in read_metrics(run.path)] == [0]
    assert [path.name for path in (run.path / "checkpoints").iterdir()] == ["step-000001"]


def test_timings_that_cannot_be_read_do_not_hinder_a_run_from_going_on(run):
    for step in range(3):
        run.write_metrics({"step": step})
        run.write_timings({"step": step, "total_s": 1.0})
    path = run.path / "timings.jsonl"
    first, _, last = path.read_bytes().splitlines(keepends=True)
    # What a file system may leave of lines that were not flushed when the power went.
    path.write_bytes(first + bytes(20) + b"\n" + last)
    run.rewind(3)
    assert [row["step"] for row in read_timings(run.path)] == [0, 2]


@pytest.mark.parametrize("name", ["manifest.json", "config.json", "metrics.jsonl"])
def test_a_file_of_a_run_that_may_not_be_read_is_named_with_the_remedy(run, refuse, name):
    refuse(run.path / name)
    read = {"manifest.json": read_manifest, "config.json": read_config, "metrics.jsonl": read_metrics}[name]
    with pytest.raises(RunError, match=rf"/{name} cannot be read: permission denied: allow reading it .*chmod u\+rX"):
        read(run.path)
