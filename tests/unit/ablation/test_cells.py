from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from agon.ablation import cells
from agon.ablation.cells import Cell, CellError, count_steps, train_cells
from agon.config import Settings

CELLS = [Cell(name, Settings()) for name in ("one", "two", "three")]

# Stands for `agon train`: writes a line a step, saves on SIGINT, and ends as its name says.
SCRIPT = """
import pathlib, signal, sys, time
run = pathlib.Path(sys.argv[1]); run.mkdir()
asked = []
signal.signal(signal.SIGINT, lambda *_: asked.append(1))
for step in range(int(sys.argv[2])):
    with (run / "metrics.jsonl").open("a") as file: file.write("{}\\n")
    time.sleep(0.05)
    if asked:
        (run / "saved").write_text(str(len(asked))); sys.exit(130)
if run.name == sys.argv[3]:
    print("agon: disk is full"); sys.exit(1)
"""


@pytest.fixture
def fake_cells(monkeypatch):
    """Let cells run the script; returns a function (steps, name of the one that fails)."""

    def use(steps: int, failing: str = "none"):
        monkeypatch.setattr(
            cells, "_command", lambda recipe, run: [sys.executable, "-c", SCRIPT, str(run), str(steps), failing]
        )

    return use


def test_every_cell_is_trained_and_progress_is_told(tmp_path, fake_cells):
    fake_cells(3)
    told = []
    train_cells(tmp_path, CELLS, num_parallel=2, on_progress=told.append)
    assert told[-1] == {"one": 3, "two": 3, "three": 3}
    assert sorted(path.name for path in (tmp_path / "recipes").glob("*.toml")) == ["one.toml", "three.toml", "two.toml"]


def test_no_more_cells_run_at_once_than_asked_for(tmp_path, fake_cells):
    fake_cells(5)
    most = []
    train_cells(tmp_path, CELLS, num_parallel=1, on_progress=lambda steps: most.append(dict(steps)))
    # one after the other: a later cell has no steps before the earlier one has all five
    for steps in most:
        assert steps["two"] == 0 or steps["one"] == 5
        assert steps["three"] == 0 or steps["two"] == 5


def test_a_cell_that_fails_is_named_with_its_last_line_and_the_others_save(tmp_path, fake_cells):
    fake_cells(4, failing="one")
    slow = [CELLS[0], Cell("slow", Settings())]
    original = cells._command
    cells_command = lambda recipe, run: (  # noqa: E731
        original(recipe, run) if run.name == "one" else [sys.executable, "-c", SCRIPT, str(run), "1000", "none"]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "_command", cells_command)
        with pytest.raises(CellError, match=r"cell one: disk is full \(log: .*one\.log\)") as caught:
            train_cells(tmp_path, slow, num_parallel=2)
    assert caught.value.exit_code == 1
    assert (tmp_path / "slow" / "saved").read_text() == "1"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_is_passed_on_once_and_waits_for_the_cells_to_save(tmp_path, fake_cells, number):
    fake_cells(1000)

    def interrupt():
        while not all(count_steps(tmp_path / name) for name in ("one", "two")):
            time.sleep(0.02)
        os.kill(os.getpid(), number)

    watcher = threading.Thread(target=interrupt, daemon=True)
    watcher.start()
    with pytest.raises(KeyboardInterrupt):
        train_cells(tmp_path, CELLS, num_parallel=2)
    assert [Path(tmp_path / name / "saved").read_text() for name in ("one", "two")] == ["1", "1"]
    assert not (tmp_path / "three").exists()


def test_a_run_that_has_not_begun_has_no_steps(tmp_path):
    assert count_steps(tmp_path / "nothing") == 0
