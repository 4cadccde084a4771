from __future__ import annotations

import json
import shutil
import subprocess
import sys

from agon.runs import read_json


def test_doctor_says_what_can_be_done_here(agon, capsys):
    assert agon("doctor", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    named = {(finding["group"], finding["name"]): finding for finding in found["findings"]}
    for name in ("Python", "cores", "memory", "disk", "torch"):
        assert ("machine", name) in named
    assert named["packages", "peft"]["state"] == "ok"
    assert any(group == "isolation of programs" for group, _ in named)
    assert found["can"]["train and evaluate on the CPU"] is True
    assert found["can"]["check mathematical answers"] is True
    # every thing that cannot be done says why
    assert {name for name, can in found["can"].items() if not can} == found["why_not"].keys()
    assert all(found["why_not"].values())
    # the Hub is asked for only when it is wanted
    assert not any(group == "network" for group, _ in named)


def test_doctor_loads_no_torch_into_its_own_process():
    code = (
        "import sys\n"
        "from agon.cli.main import main\n"
        "assert main(['doctor', '--network']) == 0\n"
        "assert not {'torch', 'transformers', 'peft', 'datasets'} & set(sys.modules), sorted(sys.modules)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "HF_HUB_OFFLINE is set  -> unset it" in said
    assert "what can be done here\n  yes     train and evaluate on the CPU\n" in said


def test_doctor_tells_two_runs_apart(agon, trained, tmp_path, capsys):
    assert agon("doctor", trained, trained) == 0
    assert "nothing differs" in capsys.readouterr().out
    other = tmp_path / "other"
    other.mkdir()
    for name in ("manifest.json", "config.json"):
        shutil.copy(trained / name, other / name)
    config = read_json(other / "config.json")
    config["train"]["seed"] = 7
    (other / "config.json").write_text(json.dumps(config))
    assert agon("doctor", trained, other) == 0
    assert "train.seed  0      7" in capsys.readouterr().out
    assert agon("doctor", trained, other, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["settings"] == [{"name": "train.seed", "first": 0, "second": 7}]
    assert (found["same"], found["versions"]) == (False, [])


def test_a_run_that_goes_on_elsewhere_says_what_changed(agon, trained, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    newest = sorted((run / "checkpoints").iterdir())[-1]
    shutil.rmtree(newest)
    manifest = read_json(run / "manifest.json")
    assert manifest["machine"]["device"] == "cpu"
    manifest["machine"]["threads"] = "96"
    manifest["versions"]["torch"] = "1.0"
    (run / "manifest.json").write_text(json.dumps(manifest))
    assert agon("train", "--resume", "--out", run) == 0
    told = capsys.readouterr().err
    assert "warning: since the run began torch 1.0 -> " in told
    assert "threads 96 -> " in told
    assert agon("doctor", trained, run) == 0
    told = capsys.readouterr().out
    assert "machine\n" in told
    assert "the same came out all the same: every metric of 4 steps, and the adapters after step 4" in told


def test_one_run_or_one_that_is_not_there_is_refused_in_one_line(agon, trained, capsys):
    assert agon("doctor", trained) == 2
    assert "give two" in capsys.readouterr().err
    assert agon("doctor", trained, trained, "--network") == 2
    assert "--network" in capsys.readouterr().err
    assert agon("doctor", trained, "/no/such/run") == 1
    assert "/no/such/run" in capsys.readouterr().err
