"""Run a planned matrix: what is missing of it, a few cells at once, each trained and measured in one process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from agon.ablation.cells import count_steps, is_finished, write_cell_recipe
from agon.ablation.jobs import Failure, run_jobs
from agon.ablation.launch import Job, cuda_devices
from agon.ablation.measure import check_labels, missing_evaluations, result_path, stamp_of_base, stamp_of_run
from agon.ablation.plan import CELLS, Plan, PlannedCell
from agon.errors import ConfigError, RunError
from agon.model.checkpoint import require_moments
from agon.recipe import settings_from
from agon.runs.atomic import output_errors, refuse_link_outside, remove_leftovers
from agon.runs.lock import RunLock
from agon.runs.manifest import folder_kind, read_config
from agon.runs.matrix import BASE, Matrix, read_matrix, write_matrix
from agon.runs.parent import require_empty
from agon.runs.space import require_writable
from agon.tasks.loader import load_task
from agon.train.run import changed_settings, checkpoint_to_resume

CellState = Literal["waiting", "begun", "trained", "done"]
_WORDS: tuple[tuple[CellState, str], ...] = (
    ("done", "done"),
    ("trained", "trained but not measured whole"),
    ("begun", "begun"),
    ("waiting", "waiting"),
)


@dataclass(frozen=True, slots=True)
class Running:
    """How far a running cell is: steps of how many, evaluations of how many."""

    name: str
    steps: int
    total_steps: int
    evaluations: int
    total_evaluations: int


@dataclass(frozen=True, slots=True)
class MatrixState:
    """How far a matrix is, the evaluations of the base counted as one cell: those finished since the start, and those running."""

    done: int
    total: int
    running: tuple[Running, ...]


OnProgress = Callable[[MatrixState], None]


def run_matrix(
    plan: Plan,
    out: Path,
    *,
    resume: bool = False,
    num_parallel: int = 1,
    say: Callable[[str], None],
    on_progress: OnProgress,
) -> list[Failure]:
    """Train and measure everything that is missing in `out`, and return the cells that failed. A failed cell does not stop the others.

    Raises:
        ConfigError: an evaluation cannot be made, or a cell that has begun has other settings.
        RunError: the folder is in use, holds something else, or cannot be written to.
        KeyboardInterrupt: after every running cell has saved.
    """
    before = matrix_in(out, resume=resume)
    plan = adopt(plan, before)
    check_plan(plan, out)
    with output_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    refuse_link_outside(out, CELLS, plan.matrix.base)
    lock = RunLock(out)
    try:
        with output_errors(out):
            remove_leftovers(out)
        write_matrix(out, plan.matrix if before is None else merge_matrices(before, plan.matrix))
        states = cell_states(plan, out)
        if resume:
            say(f"resuming {out}: {describe_states(states)}")
            for line in stuck_cells(plan, out, states):
                say(line)
        return _run_missing(plan, out, states, num_parallel=num_parallel, on_progress=on_progress)
    finally:
        lock.release()


def matrix_in(out: Path, *, resume: bool) -> Matrix | None:
    """Return the matrix that is to be continued in a folder; None where a new one is to begin.

    Raises:
        RunError: the folder holds something, and is not to be continued.
        ConfigError: it is to be continued, but there is no matrix.
    """
    if not resume:
        require_empty(out)
        require_writable(out)
        return None
    if folder_kind(out) != "matrix":
        raise ConfigError(f"{out} holds no matrix to resume: start it without --resume")
    return read_matrix(out)


def adopt(plan: Plan, before: Matrix | None) -> Plan:
    """Let a plan's cells take the run folders that its arms have in an earlier matrix, so that nothing is trained twice.

    Raises:
        ConfigError: an arm has another method or other settings than before.
    """
    if before is None:
        return plan
    known = {arm.name: arm for arm in before.arms}
    for arm in plan.matrix.arms:
        own = known.get(arm.name, arm)
        if not own.trains_like(arm):
            raise ConfigError(
                f"the arm {arm.name} was {own.method} with {dict(own.set)}, and is {arm.method} with {dict(arm.set)} in the recipe: "
                "give it another name, or use another --out"
            )
    runs = {(cell.arm, cell.seed): cell.run for cell in before.cells}
    names: dict[str, str] = {}
    cells: list[PlannedCell] = []
    for cell in plan.cells:
        found = [runs[arm, cell.seed] for arm in cell.arms if (arm, cell.seed) in runs]
        names[cell.run] = found[0] if found else cell.run
        cells.append(replace(cell, name=Path(names[cell.run]).name))
    matrix = replace(
        plan.matrix, cells=tuple(replace(cell, run=names[cell.run]) for cell in plan.matrix.cells), base=before.base
    )
    return replace(plan, cells=tuple(cells), matrix=matrix)


def cell_states(plan: Plan, out: Path) -> dict[str, CellState]:
    """Return how far every cell of a plan is, by its name; `base` stands for the evaluations of the untrained base, if any are planned."""
    states: dict[str, CellState] = {cell.name: _state(cell, out) for cell in plan.cells}
    if not plan.base_evaluations:
        return states
    missing = missing_evaluations(out / plan.matrix.base, plan.base_evaluations, stamp_of_base(plan.base))
    return {BASE: "waiting" if missing else "done", **states}


def describe_states(states: Mapping[str, CellState]) -> str:
    """Say how many cells are how far."""
    counts = [(sum(own == state for own in states.values()), words) for state, words in _WORDS]
    return ", ".join(f"{count} {words}" for count, words in counts if count)


def _state(cell: PlannedCell, out: Path) -> CellState:
    run = out / cell.run
    if folder_kind(run) != "run":
        return "waiting"
    if not is_finished(run, cell.settings):
        return "begun"
    return "trained" if missing_evaluations(run, cell.evaluations, stamp_of_run(run)) else "done"


def check_plan(plan: Plan, out: Path) -> None:
    """Refuse what could only fail after hours.

    Raises:
        ConfigError: an evaluation cannot be made, or a run that has begun has other settings.
        DataError: there is no problem to measure with.
    """
    task = load_task(plan.base.task)
    check_labels(plan.base_evaluations, plan.base, task, is_trained=False)
    for cell in plan.cells:
        check_labels(cell.evaluations, cell.settings, task, is_trained=True)
        run = out / cell.run
        if folder_kind(run) == "run":
            saved = settings_from(read_config(run), source=str(run))
            changes = changed_settings(saved, cell.settings)
            if changes:
                raise ConfigError(
                    f"these settings differ from the run in {run}: {', '.join(changes)}; resume without them, or use another --out"
                )


def stuck_cells(plan: Plan, out: Path, states: Mapping[str, CellState]) -> list[str]:
    """Return a warning about each cell that has begun and that its training will refuse to go on with. The others can go on."""
    warnings: list[str] = []
    for cell in plan.cells:
        if states[cell.name] != "begun":
            continue
        try:
            newest, _ = checkpoint_to_resume(out / cell.run)
            if newest is not None:
                require_moments(newest)
        except RunError as error:
            warnings.append(f"warning: the cell {cell.name} will fail: {error}")
    return warnings


def merge_matrices(before: Matrix, now: Matrix) -> Matrix:
    """Add a plan's arms and cells to those a matrix has: what was made is not forgotten because a resume asks for a part of it."""
    arms = {arm.name: arm for arm in (*now.arms, *before.arms)} | {arm.name: arm for arm in now.arms}
    cells = {(cell.arm, cell.seed): cell for cell in (*before.cells, *now.cells)}
    order = {name: number for number, name in enumerate(arms)}
    return replace(
        before,
        seeds=tuple(sorted({*before.seeds, *now.seeds})),
        arms=tuple(arms.values()),
        cells=tuple(sorted(cells.values(), key=lambda cell: (order[cell.arm], cell.seed))),
        rivals=tuple(dict.fromkeys((*before.rivals, *now.rivals))),
    )


def _run_missing(
    plan: Plan, out: Path, states: dict[str, CellState], *, num_parallel: int, on_progress: OnProgress
) -> list[Failure]:
    jobs: list[Job] = []
    cells = {cell.name: cell for cell in plan.cells}
    for name in starting_order(plan, states):
        if name == BASE:
            recipe = write_cell_recipe(out, BASE, plan.base)
            jobs.append(_job(BASE, recipe, out / plan.matrix.base, plan.base_evaluations, "--base"))
            continue
        cell = cells[name]
        recipe = write_cell_recipe(out, name, cell.settings)
        jobs.append(_job(name, recipe, out / cell.run, cell.evaluations))
    started: set[str] = set()

    def tell(names: Sequence[str]) -> None:
        started.update(names)
        running = tuple(_running(plan, cells.get(name), name, out) for name in names)
        on_progress(MatrixState(len(started) - len(names), len(jobs), running))

    devices = [] if plan.base.model.device == "cpu" else cuda_devices()
    return run_jobs(jobs, num_parallel=num_parallel, on_tick=tell, keep_going=True, devices=devices)


def starting_order(plan: Plan, states: Mapping[str, CellState]) -> list[str]:
    """Return what is missing, the base after the cells of the first seed: it is short, and fills the gap that the first of them leaves."""
    first = plan.cells[0].seed
    names = [
        *(cell.name for cell in plan.cells if cell.seed == first),
        BASE,
        *(cell.name for cell in plan.cells if cell.seed != first),
    ]
    return [name for name in names if states.get(name, "done") != "done"]


def _running(plan: Plan, cell: PlannedCell | None, name: str, out: Path) -> Running:
    folder = out / (plan.matrix.base if cell is None else cell.run)
    labels = plan.base_evaluations if cell is None else cell.evaluations
    return Running(
        name=name,
        steps=0 if cell is None else count_steps(folder),
        total_steps=0 if cell is None else cell.settings.train.steps,
        evaluations=sum(result_path(folder, label).exists() for label in labels),
        total_evaluations=len(labels),
    )


def _job(name: str, recipe: Path, folder: Path, labels: Sequence[str], *options: str) -> Job:
    return Job(name, "agon.cli.cell", (*options, str(recipe), str(folder), *labels), recipe.with_suffix(".log"))
