"""The preset `quickstart`: four trainings at one rollout budget, seven rows on the same held-out problems, one report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from agon.ablation.cells import Cell, OnProgress, train_cells
from agon.ablation.jobs import default_parallel
from agon.comparison.report import write_compared
from agon.config import Settings
from agon.errors import ConfigError
from agon.evaluation.evaluate import Subject, better_direction, direction_note, direction_scores, evaluate
from agon.evaluation.load import Opened, open_base, open_run, prompts_of, sampling_for
from agon.match.lineups import lineup_for
from agon.recipe import settings_from
from agon.records import Direction, Lineup
from agon.runs.atomic import output_errors, remove_leftovers
from agon.runs.evaluations import write_evaluation
from agon.runs.lock import RunLock
from agon.runs.manifest import folder_kind
from agon.runs.parent import create_parent

GRPO, DOUBLED, COOPERATIVE, AGON = "grpo", "grpo-doubled-cap", "cooperative", "agon"
DEFAULT_RUN = AGON
OnEvaluation = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: what it is called, which run it measures (None: the base), and how."""

    label: str
    title: str
    run: str | None
    protocol: str


ROWS: tuple[Row, ...] = (
    Row("zero-shot", "zero-shot", None, "single"),
    Row("grpo", "GRPO", GRPO, "single"),
    Row("grpo-doubled-cap", "GRPO, doubled cap", DOUBLED, "single"),
    Row("grpo-self-cascade", "GRPO, two-pass self-cascade", GRPO, "self-cascade"),
    Row("moa-untrained", "MoA, untrained", None, "moa"),
    Row("cooperative", "cooperative exchange", COOPERATIVE, "cascade"),
    Row("agon", "Agon", AGON, "cascade"),
)


class QuickstartResult(NamedTuple):
    """The rows as evaluation results, and the report's path."""

    rows: list[dict[str, Any]]
    report: Path


def quickstart_cells(settings: Settings) -> tuple[Cell, ...]:
    """Return the four trainings: the same seed, problems, rollouts per problem and learning rate; one has twice the draft cap."""
    cap = 2 * settings.rollout.max_draft_tokens
    return (
        Cell(DOUBLED, _with(settings, method="grpo", max_draft_tokens=cap)),
        Cell(COOPERATIVE, _with(settings, method="cooperative")),
        Cell(AGON, _with(settings, method="agon")),
        Cell(GRPO, _with(settings, method="grpo")),
    )


def run_quickstart(
    settings: Settings,
    out: Path,
    *,
    say: Callable[[str], None],
    resume: bool = False,
    on_progress: OnProgress | None = None,
    on_evaluation: OnEvaluation | None = None,
) -> QuickstartResult:
    """Train the four cells, measure the seven rows on the test problems, and write the report; why it compares nothing is told through `say`.

    Raises:
        RunError: the output folder is in use, holds something else, or cannot be written to.
        CellError: a training failed.
    """
    cells = quickstart_cells(settings)
    _prepare_folder(out, cells, resume=resume)
    lock = RunLock(out)
    try:
        with output_errors(out):
            remove_leftovers(out)
        train_cells(out, cells, num_parallel=min(len(cells), default_parallel()), on_progress=on_progress)
        by_label = _measure(settings, out, on_evaluation)
        report = out / "report.html"
        write_compared([out], report, say=say)
    finally:
        lock.release()
    return QuickstartResult([by_label[row.label] for row in ROWS], report)


def _with(settings: Settings, *, method: str, max_draft_tokens: int | None = None) -> Settings:
    tree = settings.model_dump(mode="python")
    tree["train"]["method"] = method
    if max_draft_tokens is not None:
        tree["rollout"]["max_draft_tokens"] = max_draft_tokens
    return settings_from(tree, source="quickstart")


def _prepare_folder(out: Path, cells: Sequence[Cell], *, resume: bool) -> None:
    if folder_kind(out) == "parent" and resume:
        return
    if resume:
        raise ConfigError(f"{out} holds no quickstart to resume: start it without --resume")
    create_parent(out, children=[cell.name for cell in cells], default=DEFAULT_RUN)


def _measure(settings: Settings, out: Path, on_evaluation: OnEvaluation | None) -> dict[str, dict[str, Any]]:
    results: dict[str, dict[str, Any]] = {}
    for run in (None, GRPO, DOUBLED, COOPERATIVE, AGON):
        opened = open_base(settings) if run is None else open_run(out / run, asked=settings)
        with opened.session:
            # The rows of one run share their drafts: no request is sampled twice.
            opened = replace(opened, session=opened.session.remembering())
            for row in (row for row in ROWS if row.run == run):
                if on_evaluation is not None:
                    on_evaluation(row.title)
                results[row.label] = _measure_row(row, opened, out if run is None else out / run)
    return results


def _measure_row(row: Row, opened: Opened, folder: Path) -> dict[str, Any]:
    settings, sampling = opened.settings, sampling_for(opened.settings)
    lineup, direction, accuracy, notes = _chosen(row, opened)
    subject = Subject(
        label=row.label,
        title=row.title,
        task=opened.task.name,
        protocol=row.protocol,
        lineup=lineup,
        split="test",
        direction=direction,
        method=settings.train.method if row.run is not None else None,
        notes=(*opened.notes, *notes),
        dev_accuracy=accuracy,
        prompts=prompts_of(settings.task),
    )
    evaluated = evaluate(opened.session, opened.task.test, subject, settings=settings.evaluation, sampling=sampling)
    write_evaluation(folder, row.label, evaluated.stored, evaluated.flat_matches)
    return evaluated.result


class _Chosen(NamedTuple):
    lineup: Lineup
    direction: Direction | None = None
    dev_accuracy: float | None = None
    notes: tuple[str, ...] = ()


def _chosen(row: Row, opened: Opened) -> _Chosen:
    """Say who plays; a cascade's direction is chosen on the development problems."""
    if row.protocol != "cascade":
        return _Chosen(lineup_for(row.protocol, is_base=row.run is None))
    settings, dev = opened.settings.evaluation, opened.task.dev
    scores = direction_scores(
        opened.session, dev, task=opened.task.name, settings=settings, sampling=sampling_for(opened.settings)
    )
    direction = better_direction(scores)
    note = direction_note(scores, num_problems=len(dev))
    return _Chosen(lineup_for("cascade", direction=direction), direction, scores[direction], (note,))
