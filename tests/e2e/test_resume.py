from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

_STEPS = ["--set", "train.steps=8", "--set", "train.save_every=3"]


def _start(out, small, *words):
    command = [sys.executable, "-m", "agon.cli.main", "train", *words, "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([*command, *small], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _wait_for_steps(process, out, count):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(process.stderr.read().decode())
        metrics = out / "metrics.jsonl"
        if metrics.exists() and metrics.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.005)
    raise AssertionError(f"no {count} steps within 60 s")


@pytest.fixture(scope="module")
def whole(agon, small, tmp_path_factory):
    """A run of 8 steps that nothing interrupted."""
    out = tmp_path_factory.mktemp("whole") / "run"
    assert agon("train", "quickstart-agon", "--out", out, *small, *_STEPS) == 0
    return out


def _assert_same(run, whole):
    assert (run / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()
    for name in ("A", "B"):
        path = f"checkpoints/step-000008/{name}/adapter_model.safetensors"
        assert (run / path).read_bytes() == (whole / path).read_bytes()
    assert sorted(path.name for path in (run / "matches").iterdir()) == sorted(
        p.name for p in (whole / "matches").iterdir()
    )
    for path in (run / "matches").iterdir():
        assert path.read_bytes() == (whole / "matches" / path.name).read_bytes()


@pytest.mark.slow  # test_kinds_of_training.py ends trainings in its own process, and tests/faults/ kills them anywhere
def test_a_run_killed_and_resumed_is_byte_identical(agon, small, tmp_path, whole):
    out = tmp_path / "run"
    process = _start(out, [*small, *_STEPS], "quickstart-agon")
    _wait_for_steps(process, out, 5)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert agon("train", "--resume", "--out", out) == 0
    _assert_same(out, whole)


def test_ctrl_c_saves_exits_130_and_can_be_resumed(agon, small, tmp_path, whole):
    out = tmp_path / "run"
    process = _start(out, [*small, *_STEPS], "quickstart-agon")
    _wait_for_steps(process, out, 4)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told.decode()
    assert b"--resume" in told
    assert agon("train", "--resume", "--out", out) == 0
    _assert_same(out, whole)


def test_a_damaged_newest_checkpoint_is_named_and_the_one_before_used(agon, tmp_path, whole, capsys):
    out = tmp_path / "run"
    shutil.copytree(whole, out)
    newest = out / "checkpoints" / "step-000008" / "A" / "adapter_model.safetensors"
    data = bytearray(newest.read_bytes())
    data[-1] ^= 1
    newest.write_bytes(data)
    assert agon("train", "--resume", "--out", out) == 0
    told = capsys.readouterr()
    assert "step-000008" in told.out + told.err
    assert "resumed from step 6" in told.out + told.err
    _assert_same(out, whole)


def test_resuming_a_finished_run_says_so_and_changes_nothing(agon, whole, capsys):
    before = (whole / "metrics.jsonl").read_bytes()
    assert agon("train", "--resume", "--out", whole) == 0
    assert "finished" in "".join(capsys.readouterr())
    assert (whole / "metrics.jsonl").read_bytes() == before


def test_resuming_with_another_recipe_is_refused(agon, small, whole, capsys):
    assert agon("train", "quickstart-agon", "--resume", "--out", whole, *small, *_STEPS, "--set", "train.seed=5") == 2
    assert "train.seed (0 -> 5)" in capsys.readouterr().err


def test_a_setting_given_beside_resume_alone_is_not_ignored(agon, whole, capsys):
    assert agon("train", "--resume", "--out", whole, "--set", "train.seed=5") == 2
    assert "train.seed (0 -> 5)" in capsys.readouterr().err
    assert agon("train", "--resume", "--out", whole, "--dry-run", "--set", "train.save_every=7") == 0
    shown = capsys.readouterr().out
    assert "steps = 8" in shown
    assert "save_every = 7" in shown


def test_a_dry_run_asks_for_no_room_for_a_run_that_has_begun(agon, whole, tmp_path, monkeypatch):
    monkeypatch.setattr("agon.runs.space.shutil", SimpleNamespace(disk_usage=lambda _: SimpleNamespace(free=0)))
    assert agon("train", "--resume", "--out", whole, "--dry-run") == 0
    assert agon("train", "quickstart-agon", "--out", tmp_path / "new", "--dry-run") == 1
