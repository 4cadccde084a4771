"""What earlier versions of agon wrote is read, or refused with the remedy. How the folders came about: tests/data/formats/README.md."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from agon.model.base import identify
from agon.model.locate import find_model_folder
from agon.runs import FORMAT_VERSION, read_manifest
from agon.runs.manifest import OLDEST_VERSION

FORMATS = Path(__file__).parents[1] / "data" / "formats"
KEPT = sorted(path.name for path in FORMATS.iterdir() if path.is_dir())


@pytest.fixture(params=KEPT)
def old(request, tmp_path) -> Path:
    """A folder with `run`, `quickstart` and `matrix` of a version, the last two with that run in them."""
    kept = FORMATS / request.param
    shutil.copytree(kept / "run", tmp_path / "run")
    for name, index, place in (("quickstart", "parent.json", "agon"), ("matrix", "matrix.json", "cells/agon-s0")):
        shutil.copytree(kept / "run", tmp_path / name / place)
        shutil.copy(kept / index, tmp_path / name / index)
    return tmp_path


def test_a_folder_of_every_version_that_is_read_is_kept():
    kept = {int(name.partition("-")[0]) for name in KEPT}
    wanted = set(range(OLDEST_VERSION, FORMAT_VERSION + 1))
    assert kept == wanted, "the format changed: tests/data/formats/README.md says what to do"
    for name in KEPT:
        assert read_manifest(FORMATS / name / "run")["format_version"] == int(name.partition("-")[0])


def test_no_kept_folder_names_a_machine():
    for path in FORMATS.rglob("*"):
        if path.suffix in (".json", ".jsonl"):
            assert not [word for word in ("/home/", "/tmp/", "/root/", "/Users/") if word in path.read_text()], path


@pytest.mark.parametrize("name", ["run", "quickstart", "matrix"])
def test_it_has_a_report(agon, old, name):
    assert agon("report", old / name, "--out", old / "report.html") == 0
    page = (old / "report.html").read_text()
    assert "truncated: 60 % of the completions reached their cap" in page
    # Alarms, the pair under the microscope, curves and matches to read.
    for part in ("alarms", "microscope", "curves", "reader-app"):
        assert f'id="{part}"' in page


def test_it_is_compared(agon, old, capsys):
    assert agon("compare", old / "matrix", "--json") == 0
    (arm,) = json.loads(capsys.readouterr().out)["arms"]
    assert (arm["name"], [run["seed"] for run in arm["runs"]]) == ("agon", [0])
    assert agon("doctor", old / "run", old / "quickstart") == 0
    assert "nothing differs: the same came out, every metric of 2 steps, and the adapters after step 2" in (
        capsys.readouterr().out
    )
    assert agon("doctor", old / "quickstart", old / "quickstart") == 0
    assert "1 of 1 runs that have begun in both do not differ: agon" in capsys.readouterr().out


def test_its_completions_are_checked_again(agon, old, capsys):
    assert agon("verify", "run", old / "run", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    # 2 problems x 2 matches x 2 stages of a step; 3 problems, one in two stages and one in one.
    assert found["checked"] == 8 + 6 + 3


def test_its_adapters_are_exported(agon, old):
    assert agon("export", old / "run", "--out", old / "out") == 0
    assert (old / "out" / "B" / "adapter_model.safetensors").exists()


def test_it_is_measured_and_continued_on_its_own_base_and_no_other(agon, old, capsys):
    base = read_manifest(old / "run")["hashes"]["base"]
    is_own = identify(find_model_folder("quickstart"), "quickstart").sha256 == base
    assert agon("eval", old / "run", "--protocol", "single", "--label", "again") == (0 if is_own else 1)
    shutil.rmtree(old / "run" / "checkpoints" / "step-000002")
    assert agon("train", "--resume", "--out", old / "run") == (0 if is_own else 1)
    said = capsys.readouterr()
    assert ("trained 2 steps" in said.out) is is_own
    assert ("belongs to the base" in said.err) is not is_own


@pytest.mark.parametrize(
    "words",
    [
        ("report", "RUN"),
        ("compare", "RUN"),
        ("doctor", "RUN", "RUN"),
        ("eval", "RUN"),
        ("verify", "run", "RUN"),
        ("export", "RUN", "--out", "RUN-out"),
        ("solve", "RUN", "1 2 3 = 6"),
        ("serve", "RUN", "--port", "0"),
        ("train", "--resume", "--out", "RUN"),
    ],
    ids=lambda words: words[0],
)
def test_a_newer_one_is_refused_with_the_remedy_by_every_command(agon, tmp_path, capsys, words):
    run = tmp_path / "run"
    shutil.copytree(FORMATS / KEPT[-1] / "run", run)
    newer = {**read_manifest(run), "format_version": FORMAT_VERSION + 1, "versions": {"agon": "9.9.9"}}
    (run / "manifest.json").write_text(json.dumps(newer))
    assert agon(*(word.replace("RUN", str(run)) for word in words)) == 1
    assert f"reads no newer one than {FORMAT_VERSION}: upgrade agon to 9.9.9 or newer" in capsys.readouterr().err
