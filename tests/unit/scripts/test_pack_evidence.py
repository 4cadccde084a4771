from __future__ import annotations

import io
import runpy
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from agon.runs import RunFolder, newest_checkpoint, read_json, sha256_of, verify_checkpoint
from agon.runs.atomic import MARKER
from agon.runs.checkpoints import checkpoint_identity

SCRIPT = Path(__file__).parents[3] / "scripts" / "pack_evidence.py"
pack = runpy.run_path(str(SCRIPT))["pack"]

PLAIN = {"matrix.json", "cells/agon-s0/config.json", "cells/agon-s0/manifest.json", "cells/agon-s0/metrics.jsonl"}
OF_A_CHECKPOINT = {
    "complete.json",
    "state.json",
    *(
        f"{name}/{file}"
        for name in ("A", "frozen/past-A")
        for file in ("adapter_model.safetensors", "adapter_config.json")
    ),
}
# 1 + 2^-8 lies between two numbers of bfloat16, 1 and 1 + 2^-7, and goes to the even one
EXACT, ROUNDED = 1 + 2**-8, 1.0


@pytest.fixture
def matrix(tmp_path):
    """A matrix with what runs have: settings, numbers, matches, two checkpoints with a frozen copy, a link."""
    folder = tmp_path / "matrix"
    cell = folder / "cells" / "agon-s0"
    with RunFolder.create(cell, settings={}) as run:
        for step in (1, 2):
            run.write_metrics({"step": step - 1})
            with run.checkpoint(step, is_last=step == 2) as place:
                for name in ("A", "frozen/past-A"):
                    (place / name).mkdir(parents=True)
                    weights = {"x": torch.full((3,), EXACT), "y": torch.full((1,), float(step))}
                    save_file(weights, place / name / "adapter_model.safetensors", metadata={"agon_version": "7"})
                    (place / name / "adapter_config.json").write_text("{}")
                (place / "state.json").write_text('{"progress": {}}')
                (place / "optimizer-A.safetensors").write_text("large")
    (folder / "matrix.json").write_text("{}")
    (cell / "matches" / "step-000000.jsonl.gz").write_text("texts")
    (cell / "secret.json").symlink_to(tmp_path / "elsewhere")
    return folder


def unpacked(parts, place):
    with tarfile.open(fileobj=io.BytesIO(b"".join(part.read_bytes() for part in parts))) as archive:
        archive.extractall(place, filter="data")
    return place / "matrix" / "cells" / "agon-s0"


def names_in(parts):
    with tarfile.open(fileobj=io.BytesIO(b"".join(part.read_bytes() for part in parts))) as archive:
        return {name.removeprefix("matrix/") for name in archive.getnames()}


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ({}, set()),
        ({"matches": True}, {"cells/agon-s0/matches/step-000000.jsonl.gz"}),
        ({"adapters": True}, {f"cells/agon-s0/checkpoints/step-000002/{name}" for name in OF_A_CHECKPOINT}),
    ],
)
def test_what_is_asked_for_is_packed_and_joins_again(matrix, tmp_path, options, more):
    parts = pack(matrix, tmp_path / "out", part_bytes=100, **options)
    assert len(parts) > 1
    assert all(part.stat().st_size <= 100 for part in parts)
    assert names_in(parts) == PLAIN | more


def test_a_packed_checkpoint_is_whole_the_last_and_known_for_the_one_it_was_packed_from(matrix, tmp_path):
    source = matrix / "cells" / "agon-s0" / "checkpoints" / "step-000002"
    run = unpacked(pack(matrix, tmp_path / "out", part_bytes=10**6, adapters=True), tmp_path / "home")
    packed = newest_checkpoint(run).path
    assert verify_checkpoint(packed) is None
    assert checkpoint_identity(packed) == {"checkpoint": "step-000002", "sha256": sha256_of(source / MARKER)}
    before, after = read_json(source / MARKER), read_json(packed / MARKER)
    assert after["is_last"] is True
    assert after["lines"] == before["lines"]
    moments = before["files"].pop("optimizer-A.safetensors")
    assert moments["bytes"] == 5
    assert after["files"] == before["files"]


def test_a_rounded_checkpoint_holds_the_nearest_bfloat16_and_says_so(matrix, tmp_path):
    source = matrix / "cells" / "agon-s0" / "checkpoints" / "step-000002"
    parts = pack(matrix, tmp_path / "out", part_bytes=10**6, adapters=True, bfloat16=True)
    newest = newest_checkpoint(unpacked(parts, tmp_path / "home"))
    assert newest.notes == ("the adapters of step-000002 were rounded to bfloat16 when it was packed",)
    assert checkpoint_identity(newest.path) == {**checkpoint_identity(source), "rounded_to": "bfloat16"}
    for name in ("A", "frozen/past-A"):
        with safe_open(newest.path / name / "adapter_model.safetensors", framework="pt") as file:
            assert file.metadata() == {"agon_version": "7"}
            assert torch.equal(file.get_tensor("x"), torch.full((3,), ROUNDED, dtype=torch.bfloat16))
            assert torch.equal(file.get_tensor("y"), torch.tensor([2.0], dtype=torch.bfloat16))


@pytest.mark.parametrize("bfloat16", [False, True])
def test_what_was_packed_can_be_packed_again_and_stays_the_same(matrix, tmp_path, bfloat16):
    once = unpacked(pack(matrix, tmp_path / "1", part_bytes=10**6, adapters=True, bfloat16=bfloat16), tmp_path / "one")
    parts = pack(tmp_path / "one" / "matrix", tmp_path / "2", part_bytes=10**6, adapters=True)
    twice = unpacked(parts, tmp_path / "two")
    marker = Path("checkpoints", "step-000002", MARKER)
    assert (twice / marker).read_bytes() == (once / marker).read_bytes()


def test_a_damaged_newest_checkpoint_is_named_and_the_whole_one_before_it_packed(matrix, tmp_path, capsys):
    (matrix / "cells" / "agon-s0" / "checkpoints" / "step-000002" / "state.json").unlink()
    run = unpacked(pack(matrix, tmp_path / "out", part_bytes=10**6, adapters=True), tmp_path / "home")
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["step-000001"]
    assert verify_checkpoint(run / "checkpoints" / "step-000001") is None
    told = capsys.readouterr().err
    assert "checkpoint step-000002 is damaged (state.json is missing), and is not packed" in told


def test_a_run_without_a_whole_checkpoint_is_named_and_packed_without_adapters(matrix, tmp_path, capsys):
    for step in (1, 2):
        (matrix / "cells" / "agon-s0" / "checkpoints" / f"step-00000{step}" / MARKER).unlink()
    parts = pack(matrix, tmp_path / "out", part_bytes=10**6, adapters=True)
    assert names_in(parts) == PLAIN
    assert "agon-s0 has no whole checkpoint: its adapters are not packed" in capsys.readouterr().err


def test_more_than_a_hundred_parts_are_joined_in_their_order_and_without_those_of_an_earlier_archive(matrix, tmp_path):
    out = tmp_path / "out"
    for part_bytes, num_least in ((4, 101), (100, 2)):
        parts = pack(matrix, out, part_bytes=part_bytes)
        assert len(parts) >= num_least
        # What `cat OUT/evidence.tar.xz.part*` takes, in its order.
        assert sorted(out.iterdir()) == parts
        assert names_in(parts) == PLAIN


def run_script(*words, cwd=None):
    command = [sys.executable, str(SCRIPT), *(str(word) for word in words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def test_checkpoints_that_are_a_link_to_another_disk_are_packed(matrix, tmp_path, capsys):
    (matrix / "cells" / "agon-s0" / "secret.json").unlink()
    checkpoints = matrix / "cells" / "agon-s0" / "checkpoints"
    checkpoints.rename(tmp_path / "disk")
    checkpoints.symlink_to(tmp_path / "disk")
    parts = pack(matrix, tmp_path / "out", part_bytes=10**6, adapters=True)
    assert names_in(parts) == PLAIN | {f"cells/agon-s0/checkpoints/step-000002/{name}" for name in OF_A_CHECKPOINT}
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["agon-s1", "checkpoints"])
@pytest.mark.parametrize("target", ["disk", "gone"])
def test_a_link_of_which_nothing_is_packed_is_named(matrix, tmp_path, capsys, name, target):
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "config.json").write_text("{}")
    (matrix / "cells" / name).symlink_to(tmp_path / target)
    assert names_in(pack(matrix, tmp_path / "out", part_bytes=10**6)) == PLAIN
    told = capsys.readouterr().err
    assert f"warning: {matrix / 'cells' / name} is a link to {tmp_path / target}: nothing of it is packed" in told
    assert f"warning: {matrix / 'cells' / 'agon-s0' / 'secret.json'} is a link" in told


@pytest.mark.parametrize("folder", [".", "..", "cells/.."])
def test_a_folder_is_packed_under_its_own_name_however_it_is_named(matrix, tmp_path, folder):
    at = matrix / "cells" if folder == ".." else matrix
    assert run_script(folder, tmp_path / "out", cwd=at).returncode == 0
    with tarfile.open(tmp_path / "out" / "evidence.tar.xz.part00") as archive:
        assert set(archive.getnames()) == {f"matrix/{name}" for name in PLAIN}


@pytest.mark.parametrize("size", ["-1", "0", "nan", "inf", "1e-9", "x"])
def test_a_part_of_no_size_is_refused_in_one_line_and_an_archive_stays(matrix, tmp_path, size):
    pack(matrix, tmp_path / "out", part_bytes=100)
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    ended = run_script(matrix, tmp_path / "out", f"--part-mib={size}")
    assert ended.returncode == 2
    assert f"'{size}' is no size of a part in MiB: write a number above 0" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


@pytest.mark.parametrize("below", [(), ("parts",)])
def test_a_file_in_the_way_is_refused_in_one_line(matrix, tmp_path, below):
    (tmp_path / "out").write_text("mine")
    ended = run_script(matrix, tmp_path.joinpath("out", *below))
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == f"{tmp_path / 'out'} is a file: name a folder for OUT"
    assert "Traceback" not in ended.stderr
    assert (tmp_path / "out").read_text() == "mine"


def test_an_earlier_archive_stays_until_the_next_is_written(matrix, tmp_path, monkeypatch):
    parts = pack(matrix, tmp_path / "out", part_bytes=100)

    def fill_disk(path, data):
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", fill_disk)
        with pytest.raises(OSError, match="No space left"):
            pack(matrix, tmp_path / "out", part_bytes=10**6)
    assert sorted((tmp_path / "out").iterdir()) == parts
    assert names_in(parts) == PLAIN


@pytest.mark.parametrize("part", ["checkpoints", "checkpoints/step-000002", "checkpoints/step-000002/A"])
def test_a_part_of_a_run_is_refused_with_the_run_folder(matrix, tmp_path, part):
    run = matrix / "cells" / "agon-s0"
    ended = run_script(run / part, tmp_path / "out", "--adapters")
    assert ended.returncode == 1
    assert ended.stderr == f"{run / part} is a part of a run: name the run folder, {run}\n"
    assert not (tmp_path / "out").exists()


def test_a_run_below_a_folder_that_is_named_checkpoints_is_packed(matrix, tmp_path, capsys):
    parent = tmp_path / "mine" / "checkpoints"
    parent.mkdir(parents=True)
    matrix.rename(parent / "matrix")
    both = [
        pack(tmp_path / "mine", tmp_path / "1", part_bytes=10**6, adapters=True),
        pack(parent / "matrix", tmp_path / "2", part_bytes=10**6, adapters=True),
    ]
    wanted = PLAIN | {f"cells/agon-s0/checkpoints/step-000002/{name}" for name in OF_A_CHECKPOINT}
    assert names_in(both[0]) == {f"mine/checkpoints/matrix/{name}" for name in wanted}
    assert names_in(both[1]) == wanted
    run = parent / "matrix" / "cells" / "agon-s0"
    for step in (1, 2):
        (run / "checkpoints" / f"step-00000{step}" / MARKER).unlink()
    capsys.readouterr()
    pack(tmp_path / "mine", tmp_path / "1", part_bytes=10**6, adapters=True)
    told = [line for line in capsys.readouterr().err.splitlines() if "no whole checkpoint" in line]
    assert told == [f"warning: {run} has no whole checkpoint: its adapters are not packed"]


def test_a_folder_without_a_run_is_named_where_adapters_are_asked_for(tmp_path, capsys):
    (tmp_path / "matrix").mkdir()
    (tmp_path / "matrix" / "notes.json").write_text("{}")
    pack(tmp_path / "matrix", tmp_path / "out", part_bytes=10**6, adapters=True)
    assert capsys.readouterr().err == f"warning: {tmp_path / 'matrix'} holds no run: no adapters are packed\n"


def test_a_folder_without_anything_to_pack_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit, match="holds nothing to pack"):
        pack(tmp_path / "empty", tmp_path / "out", part_bytes=100)
    assert not (tmp_path / "out").exists()


def test_rounding_what_is_not_packed_is_refused(matrix, tmp_path):
    words = [sys.executable, str(SCRIPT), str(matrix), str(tmp_path / "out"), "--bfloat16"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "add --adapters" in ended.stderr


def test_without_adapters_it_runs_where_agon_is_not_installed(matrix, tmp_path):
    words = [sys.executable, "-S", str(SCRIPT), str(matrix), str(tmp_path / "out")]
    subprocess.run(words, capture_output=True, check=True)
    assert names_in([tmp_path / "out" / "evidence.tar.xz.part00"]) == PLAIN
