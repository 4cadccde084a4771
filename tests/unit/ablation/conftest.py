from __future__ import annotations

import multiprocessing.forkserver
from collections.abc import Callable
from pathlib import Path

import pytest

from agon.ablation import launch
from agon.ablation.launch import Job

# Stands for a cell: writes a line a step, saves on SIGTERM, and ends as its name says.
MODULE = """
import os, pathlib, signal, time

def main(arguments):
    run, steps, failing = pathlib.Path(arguments[0]), int(arguments[1]), arguments[2]
    run.mkdir()
    asked = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
    for step in range(steps):
        with (run / "metrics.jsonl").open("a") as file: file.write("{}\\n")
        time.sleep(0.05)
        if asked:
            (run / "saved").write_text(str(len(asked))); return 130
        if run.name == failing == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
    (run / "device").write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "any"))
    print("threads", os.environ["OMP_NUM_THREADS"], flush=True)
    if run.name == failing:
        print("agon: disk is full", flush=True); return 1
    return 0

if __name__ == "__main__":
    import sys
    sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(params=["program", "fork"])
def make_job(request, monkeypatch, tmp_path) -> Callable[..., Job]:
    """Return a function (name, steps, name of the one that fails) -> job, for each way to start a process."""
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "fake_cell.py").write_text(MODULE)
    monkeypatch.syspath_prepend(modules)
    monkeypatch.setenv("PYTHONPATH", str(modules))
    monkeypatch.setattr(launch, "can_fork", lambda: request.param == "fork")
    # The server that loads nothing is stopped again: other tests want one that has loaded everything.
    monkeypatch.setattr(launch, "_PRELOADED", [])
    stop = multiprocessing.forkserver._forkserver._stop
    stop()

    def make(name: str, steps: int, failing: str = "none") -> Job:
        return Job(name, "fake_cell", (str(tmp_path / name), str(steps), failing), Path(tmp_path / f"{name}.log"))

    yield make
    stop()
