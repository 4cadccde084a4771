"""Training cells, each an ordinary run in a process of its own, a few side by side."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agon.config import Settings
from agon.errors import AgonError
from agon.recipe import describe_settings, settings_from
from agon.runs.atomic import atomic_write_text, output_errors
from agon.runs.checkpoints import checkpoint_step, newest_checkpoint
from agon.runs.lines import METRICS_FILE
from agon.runs.manifest import folder_kind, read_config
from agon.signals import PARENT_VARIABLE, termination_as_interrupt

_POLL_S = 0.3
OnProgress = Callable[[Mapping[str, int]], None]


@dataclass(frozen=True, slots=True)
class Cell:
    """One training: the name of its run folder, and its settings."""

    name: str
    settings: Settings


class CellError(AgonError):
    """A cell ended with an error; carries the exit code of its process."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def train_cells(
    parent: Path, cells: Sequence[Cell], *, num_parallel: int, on_progress: OnProgress | None = None
) -> None:
    """Train every cell into `parent/NAME`, at most `num_parallel` at once. A cell that has begun is continued, a finished one kept.

    One thread each: two single-threaded trainings of a small model are several times faster than one with two threads. An
    interrupt is passed on once, so that every running cell finishes its step and saves.

    Raises:
        CellError: a cell failed; the others are stopped.
        KeyboardInterrupt: after every running cell has saved.
    """
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        with termination_as_interrupt():
            waiting = [cell for cell in cells if not is_finished(parent / cell.name, cell.settings)]
            _run_all(parent, waiting, running, num_parallel, on_progress)
    finally:
        _stop(running.values())


def _run_all(
    parent: Path,
    waiting: list[Cell],
    running: dict[str, subprocess.Popen[bytes]],
    num_parallel: int,
    on_progress: OnProgress | None,
) -> None:
    names = [cell.name for cell in waiting]
    while waiting or running:
        while waiting and len(running) < num_parallel:
            cell = waiting.pop(0)
            running[cell.name] = _start(parent, cell)
        time.sleep(_POLL_S)
        if on_progress is not None:
            on_progress({name: count_steps(parent / name) for name in names})
        for name in [name for name, process in running.items() if process.poll() is not None]:
            _require_success(parent, name, running.pop(name).returncode)


def is_finished(run: Path, settings: Settings) -> bool:
    """Tell whether a run with just these settings has a whole checkpoint of its last step.

    One with other settings is not called finished: continuing it then says what differs.
    """
    if folder_kind(run) != "run":
        return False
    newest = newest_checkpoint(run).path
    if newest is None or checkpoint_step(newest) < settings.train.steps:
        return False
    return settings_from(read_config(run), source=str(run)) == settings


def count_steps(run: Path) -> int:
    """Return how many steps a run has written, without parsing them. Zero for a run that has not begun."""
    try:
        return (run / METRICS_FILE).read_bytes().count(b"\n")
    except OSError:
        return 0


def _start(parent: Path, cell: Cell) -> subprocess.Popen[bytes]:
    run = parent / cell.name
    recipe = parent / "recipes" / f"{cell.name}.toml"
    with output_errors(recipe):
        recipe.parent.mkdir(parents=True, exist_ok=True)
    atomic_write_text(recipe, describe_settings(cell.settings))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", PARENT_VARIABLE: str(os.getpid())}
    with output_errors(parent), _log_path(parent, cell.name).open("wb") as log:
        # A session of its own: the terminal's Ctrl-C reaches a cell once, through us, and not twice.
        return subprocess.Popen(
            _command(recipe, run),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )


def _command(recipe: Path, run: Path) -> list[str]:
    command = [sys.executable, "-m", "agon.cli.main", "train", str(recipe), "--out", str(run)]
    return [*command, "--resume"] if folder_kind(run) == "run" else command


def _log_path(parent: Path, name: str) -> Path:
    return parent / "recipes" / f"{name}.log"


def _require_success(parent: Path, name: str, code: int) -> None:
    if code == 0:
        return
    log = _log_path(parent, name)
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    last = lines[-1].removeprefix("agon: ") if lines else f"ended with code {code} and said nothing"
    raise CellError(f"cell {name}: {last} (log: {log})", code if code > 0 else 1)


def _stop(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    alive = [process for process in processes if process.poll() is None]
    for process in alive:
        process.send_signal(signal.SIGINT)
    try:
        for process in alive:
            process.wait()
    except KeyboardInterrupt:
        # A second interrupt: the cells are in sessions of their own and would otherwise live on.
        for process in alive:
            process.kill()
        raise
