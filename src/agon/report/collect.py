"""Read run folders into what a report shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agon.errors import RunError
from agon.records import METHODS, PROTOCOLS, Match
from agon.runs import (
    child_runs,
    evaluation_files,
    folder_kind,
    match_files,
    match_step,
    read_alarms,
    read_config,
    read_evaluation,
    read_manifest,
    read_matches,
    read_metrics,
    read_timings,
)
from agon.runs.evaluations import matches_of
from agon.runs.matrix import read_matrix
from agon.secrecy import redact

_MAX_TITLE = 4
_BASE = "untrained base"


@dataclass(frozen=True, slots=True)
class Run:
    """One trained run. `name` tells it from the others of the report; `alarms` are those that sounded while it trained."""

    name: str
    path: Path
    config: Mapping[str, Any]
    manifest: Mapping[str, Any]
    metrics: Sequence[Mapping[str, Any]]
    timings: Sequence[Mapping[str, Any]]
    alarms: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One evaluation's result file. `run` is None where no trained run was measured; `matches_path` where none were kept.

    `owner` says whose it is where a report holds those of several: an arm, a run or the base. None where there is one.
    """

    result: Mapping[str, Any]
    run: Run | None
    matches_path: Path | None
    owner: str | None = None

    @property
    def label(self) -> str:
        """What the result is called, with its title if it has one."""
        return str(self.result.get("title") or self.result["label"])

    @property
    def name(self) -> str:
        """What tells it from the others of the report: whose it is, and its label."""
        return self.label if self.owner in (None, self.label) else f"{self.owner}: {self.label}"

    def matches(self) -> Iterator[Match]:
        """Yield the matches it was counted from."""
        return iter(()) if self.matches_path is None else read_matches(self.matches_path)


@dataclass(frozen=True, slots=True)
class Collected:
    """Everything a report is made of. `title` names the folders asked for; `missing` are runs that a parent folder names but that have not begun.

    `left_out` counts the evaluations on other problem sets that a page about one set does not show, by set.
    """

    title: str
    runs: tuple[Run, ...]
    evaluations: tuple[Evaluation, ...]
    missing: tuple[str, ...]
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])


def collect(paths: Sequence[Path]) -> Collected:
    """Read runs and parents of runs, each once.

    Raises:
        RunError: a path is no run folder, or a file in one is damaged.
    """
    runs: list[Run] = []
    evaluations: list[Evaluation] = []
    missing: list[str] = []
    found = list(dict.fromkeys(run for path in paths for run in child_runs(path)))
    names = dict(zip(found, _distinct_names(found), strict=True))
    for path, name in names.items():
        if folder_kind(path) is None:
            missing.append(name)
            continue
        run = _read_run(path, name)
        runs.append(run)
        evaluations += [_read_evaluation(file, run) for file in evaluation_files(path)]
    for path in dict.fromkeys(paths):
        evaluations += [_read_evaluation(file, None) for file in _evaluations_of_base(path)]
    return Collected(_title(paths), tuple(runs), _told_apart(sorted(evaluations, key=_order)), tuple(missing))


def owned(collected: Collected, owners: Mapping[str, str]) -> Collected:
    """Name the evaluations by their owners, which are given by the name of the run; those of other runs keep theirs."""
    evaluations = tuple(
        evaluation
        if evaluation.run is None or evaluation.run.name not in owners
        else replace(evaluation, owner=owners[evaluation.run.name])
        for evaluation in collected.evaluations
    )
    return replace(collected, evaluations=evaluations)


def narrowed(collected: Collected, *, task: str, split: str) -> Collected:
    """Keep the evaluations on one task and split, and count the others."""
    sets = [(str(item.result.get("task")), str(item.result.get("split"))) for item in collected.evaluations]
    kept = [item for item, own in zip(collected.evaluations, sets, strict=True) if own == (task, split)]
    others = Counter(f"{name} ({part})" for name, part in sets if (name, part) != (task, split))
    return replace(collected, evaluations=tuple(kept), left_out=dict(others))


def last_training_matches(run: Run) -> tuple[int, Path] | None:
    """Return the newest step whose matches were saved while training, and their file."""
    files = match_files(run.path)
    return (match_step(files[-1]), files[-1]) if files else None


def _told_apart(evaluations: Sequence[Evaluation]) -> tuple[Evaluation, ...]:
    """Name the owner of every evaluation by its run, where there are several: labels repeat from run to run."""
    owners = [_BASE if evaluation.run is None else evaluation.run.name for evaluation in evaluations]
    if len(set(owners)) < 2:
        return tuple(evaluations)
    return tuple(replace(evaluation, owner=owner) for evaluation, owner in zip(evaluations, owners, strict=True))


def _evaluations_of_base(path: Path) -> list[Path]:
    """Return the result files that belong to no training: a parent holds them itself, a matrix in a folder of their own."""
    kind = folder_kind(path)
    if kind == "matrix":
        return evaluation_files(path / read_matrix(path).base)
    return evaluation_files(path) if kind == "parent" else []


def _read_run(path: Path, name: str) -> Run:
    return Run(
        name=name,
        path=path,
        config=redact(_tables(path)),
        manifest=redact(read_manifest(path)),
        metrics=read_metrics(path),
        timings=read_timings(path),
        alarms=redact(read_alarms(path)),
    )


def _tables(path: Path) -> dict[str, Any]:
    config = read_config(path)
    if not all(isinstance(table, dict) for table in config.values()):
        raise RunError(f"{path / 'config.json'} is damaged: every entry is a table of settings; restore it from a copy")
    return config


def _read_evaluation(file: Path, run: Run | None) -> Evaluation:
    result: dict[str, Any] = redact(read_evaluation(file))
    interval = result.get("interval")
    is_whole = isinstance(interval, dict) and all(isinstance(interval.get(end), int | float) for end in ("low", "high"))
    if not (is_whole and isinstance(result.get("accuracy"), int | float) and isinstance(result.get("n"), int)):
        raise RunError(f"{file} has no accuracy, n or interval: evaluate again, or remove the file")
    return Evaluation(result, run, matches_of(file, result))


def _order(evaluation: Evaluation) -> tuple[int, int, str, str]:
    """The base first, then by method and protocol as the records list them: a ladder from the weakest control up."""
    method, protocol = evaluation.result.get("method"), evaluation.result.get("protocol")
    return (
        METHODS.index(method) + 1 if method in METHODS else 0 if method is None else len(METHODS) + 1,
        PROTOCOLS.index(protocol) if protocol in PROTOCOLS else len(PROTOCOLS),
        evaluation.run.name if evaluation.run is not None else "",
        evaluation.label,
    )


def _title(paths: Sequence[Path]) -> str:
    names = _distinct_names(list(dict.fromkeys(paths)))
    return (
        ", ".join(names)
        if len(names) <= _MAX_TITLE
        else f"{', '.join(names[:_MAX_TITLE])} and {len(names) - _MAX_TITLE} more"
    )


def _distinct_names(paths: Sequence[Path]) -> list[str]:
    """Name each folder by as few of its last path parts as tell it from the others."""
    parts = [path.resolve().parts for path in paths]
    names: list[str] = []
    for own in parts:
        size = 1
        while size < len(own) and sum(other[-size:] == own[-size:] for other in parts) > 1:
            size += 1
        names.append("/".join(own[-size:]))
    return names
