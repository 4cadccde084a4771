"""Training cells, each an ordinary run in a process of its own, a few side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agon.ablation.jobs import run_jobs
from agon.ablation.launch import Job
from agon.config import Settings
from agon.errors import AgonError
from agon.recipe import describe_settings, settings_from
from agon.runs.atomic import atomic_write_text, output_errors, refuse_link_outside
from agon.runs.checkpoints import is_last, newest_checkpoint
from agon.runs.lines import METRICS_FILE
from agon.runs.manifest import folder_kind, read_config
from agon.train.run import changed_settings

RECIPES = "recipes"
"""Folder of the cells' settings, as recipes, and of what their processes print."""
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

    Raises:
        CellError: a cell failed; the others are stopped.
        KeyboardInterrupt: after every running cell has saved.
    """
    waiting = [cell for cell in cells if not is_finished(parent / cell.name, cell.settings)]
    jobs = [_job(parent, cell) for cell in waiting]

    def tell(running: Sequence[str]) -> None:
        if on_progress is not None:
            on_progress({cell.name: count_steps(parent / cell.name) for cell in waiting})

    for failure in run_jobs(jobs, num_parallel=num_parallel, on_tick=tell, keep_going=False):
        raise CellError(str(failure), failure.exit_code)


def is_finished(run: Path, settings: Settings) -> bool:
    """Tell whether a run with just these settings has a whole checkpoint of its end.

    One with other settings is not called finished: continuing it then says what differs.
    """
    if folder_kind(run) != "run":
        return False
    newest = newest_checkpoint(run).path
    if newest is None or not is_last(newest, steps=settings.train.steps):
        return False
    return not changed_settings(settings_from(read_config(run), source=str(run)), settings)


def count_steps(run: Path) -> int:
    """Return how many steps a run has written, without parsing them. Zero for a run that has not begun."""
    try:
        return (run / METRICS_FILE).read_bytes().count(b"\n")
    except OSError:
        return 0


def write_cell_recipe(folder: Path, name: str, settings: Settings) -> Path:
    """Write a cell's settings as a recipe for its process, below `folder`, and return the file.

    Raises:
        RunError: the place cannot be written to, or is a link out of the folder.
    """
    refuse_link_outside(folder, RECIPES)
    recipe = folder / RECIPES / f"{name}.toml"
    with output_errors(recipe):
        recipe.parent.mkdir(parents=True, exist_ok=True)
    atomic_write_text(recipe, describe_settings(settings))
    return recipe


def _job(parent: Path, cell: Cell) -> Job:
    recipe, run = write_cell_recipe(parent, cell.name, cell.settings), parent / cell.name
    resume = ("--resume",) if folder_kind(run) == "run" else ()
    arguments = ("train", str(recipe), "--out", str(run), *resume)
    return Job(cell.name, "agon.cli.main", arguments, recipe.with_suffix(".log"))
