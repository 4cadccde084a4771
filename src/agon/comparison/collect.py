"""Read runs, parents of runs and matrices into trained arms and evaluations. Only evaluation files, configs and metrics are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agon.errors import RunError
from agon.records import DIRECTIONS
from agon.runs import (
    child_runs,
    evaluation_files,
    folder_kind,
    is_last,
    list_checkpoints,
    read_config,
    read_evaluation,
    read_manifest,
    read_metrics,
)
from agon.runs.matrix import MatrixArm, read_matrix
from agon.secrecy import redact

_STREAMS = ("draft", "challenge")
# What runs did before it was a setting: one that does otherwise is no further seed of theirs.
_UNWRITTEN = {"task.withholding": "mark"}


@dataclass(frozen=True, slots=True)
class Training:
    """One trained run, as far as a comparison looks at it. `metrics` hold the mean of each metric over the steps that have it."""

    run: str
    seed: int | None
    method: str
    config: Mapping[str, Any]
    hashes: Mapping[str, Any]
    steps: int
    is_finished: bool
    metrics: Mapping[str, float]
    distances: tuple[float, ...] = ()

    @property
    def planned_steps(self) -> int | None:
        """How many steps the settings ask for, at most."""
        return _steps(self.config)

    def mean_of_streams(self, name: str) -> float | None:
        """Return a metric of the drafter's and the challenger's stream, averaged over the streams that have it."""
        values = [self.metrics[key] for stream in _STREAMS if (key := f"{stream}/{name}") in self.metrics]
        return sum(values) / len(values) if values else None

    @property
    def learns_challenges(self) -> bool:
        """Whether it trained on challenges, and not only on drafts."""
        return "challenge/accuracy" in self.metrics


@dataclass(frozen=True, slots=True)
class Measured:
    """One evaluation. `training` is None where the untrained base was measured; `run` is the folder it was found in."""

    run: str
    label: str
    training: Training | None
    result: Mapping[str, Any]
    correct: Mapping[str, Sequence[bool]]

    @property
    def place(self) -> str:
        """What a message calls it."""
        return f"{self.run} ({self.label})"

    @property
    def direction(self) -> str | None:
        """Who drafts for whom: a-b, b-a or None."""
        direction = self.result.get("direction")
        return direction if direction in DIRECTIONS else None

    @property
    def samples(self) -> int:
        """Samples of each problem."""
        return len(next(iter(self.correct.values())))


@dataclass(frozen=True, slots=True)
class Collected:
    """Everything found. `named` are the arms of the matrices, each with its runs; other runs get an arm by their settings.

    `waiting` are runs that an index names but that have not begun, `unmeasured` those without an evaluation.
    """

    trainings: tuple[Training, ...]
    measured: tuple[Measured, ...]
    named: tuple[tuple[MatrixArm, tuple[str, ...]], ...] = ()
    rivals: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    unmeasured: tuple[str, ...] = ()


@dataclass(slots=True)
class _Basket:
    """What was found so far. `names` and `waiting` are folders by their true places: a run may be given twice, in two spellings."""

    names: dict[Path, str] = field(default_factory=dict[Path, str])
    trainings: dict[str, Training] = field(default_factory=dict[str, Training])
    measured: list[Measured] = field(default_factory=list[Measured])
    named: dict[str, tuple[MatrixArm, tuple[str, ...]]] = field(
        default_factory=dict[str, tuple[MatrixArm, tuple[str, ...]]]
    )
    rivals: list[str] = field(default_factory=list[str])
    waiting: dict[Path, str] = field(default_factory=dict[Path, str])


def collect(paths: Sequence[Path]) -> Collected:
    """Read what the folders stand for, each run once.

    Raises:
        RunError: a path is no run folder, a file is damaged, or a run that was named by itself has no evaluation.
    """
    basket = _Basket()
    for path in dict.fromkeys(paths):
        runs = child_runs(path)
        kind = folder_kind(path)
        for run in runs:
            _add_run(run, basket)
        if kind == "run":
            _require_measured(path, basket)
        elif basket.names.setdefault(path.resolve(), str(path)) == str(path):
            _add_folder(path, basket)
    unmeasured = [name for name in basket.trainings if not any(item.run == name for item in basket.measured)]
    if not basket.measured:
        named = ", ".join(map(str, paths))
        example = unmeasured[0] if unmeasured else str(paths[0])
        raise RunError(f"{named}: no run in it has an evaluation yet: run `agon eval {example}` first")
    return Collected(
        tuple(basket.trainings.values()),
        tuple(basket.measured),
        tuple(basket.named.values()),
        tuple(basket.rivals),
        tuple(basket.waiting.values()),
        tuple(unmeasured),
    )


def _add_run(path: Path, basket: _Basket) -> None:
    if folder_kind(path) is None:
        basket.waiting.setdefault(path.resolve(), str(path))
    elif path.resolve() not in basket.names:
        training = read_training(path)
        basket.names[path.resolve()] = training.run
        basket.trainings[training.run] = training
        basket.measured += _evaluations(path, training)


def _require_measured(path: Path, basket: _Basket) -> None:
    name = basket.names[path.resolve()]
    if not any(item.run == name for item in basket.measured):
        raise RunError(f"{path} has no evaluation to compare: run `agon eval {path}` first")


def _add_folder(path: Path, basket: _Basket) -> None:
    """Add what lies beside the runs of a parent or a matrix: its evaluations of the base, its arms."""
    if folder_kind(path) == "parent":
        basket.measured += _evaluations(path, None)
        return
    matrix = read_matrix(path)
    for arm in matrix.arms:
        cells = [path / cell.run for cell in matrix.cells if cell.arm == arm.name]
        _add_arm(arm, tuple(basket.names.get(cell.resolve(), str(cell)) for cell in cells), path, basket)
    basket.rivals += [name for name in matrix.rivals if name not in basket.rivals]
    basket.measured += _evaluations(path / matrix.base, None)


def _add_arm(arm: MatrixArm, runs: tuple[str, ...], path: Path, basket: _Basket) -> None:
    """Add a matrix's arm, or further runs to that of another matrix."""
    known, earlier = basket.named.get(arm.name, (arm, ()))
    if not known.trains_like(arm):
        raise RunError(
            f"{path} has an arm {arm.name!r} of {arm.method} with {dict(arm.set)}, another matrix one of {known.method} with "
            f"{dict(known.set)}: compare one matrix at a time"
        )
    basket.named[arm.name] = known, tuple(dict.fromkeys((*earlier, *runs)))


def read_training(path: Path) -> Training:
    """Read a run folder's settings and metrics.

    Raises:
        RunError: no run folder, or a file in it is damaged.
    """
    tables: dict[str, Any] = redact(read_config(path))
    if not all(isinstance(table, dict) for table in tables.values()):
        raise RunError(f"{path / 'config.json'} is damaged: every entry is a table of settings; restore it from a copy")
    config = {f"{table}.{key}": value for table, inner in tables.items() for key, value in inner.items()}
    for name, value in _UNWRITTEN.items():
        config.setdefault(name, value)
    rows = read_metrics(path)
    seed = config.get("train.seed")
    return Training(
        run=str(path),
        seed=seed if isinstance(seed, int) else None,
        method=str(config.get("train.method", "")),
        config=config,
        hashes=read_manifest(path).get("hashes", {}),
        steps=len(rows),
        is_finished=_is_finished(path, len(rows), _steps(config)),
        metrics=_means(rows),
        distances=tuple(row["pair/distance"] for row in rows if _is_number(row.get("pair/distance"))),
    )


def _steps(config: Mapping[str, Any]) -> int | None:
    steps = config.get("train.steps")
    return steps if isinstance(steps, int) else None


def _is_finished(path: Path, done: int, planned: int | None) -> bool:
    """Tell whether a run has all its steps, or ended before them because its rollouts were used up."""
    if planned is None or done >= planned:
        return True
    checkpoints = list_checkpoints(path)
    return bool(checkpoints) and is_last(checkpoints[-1], steps=planned)


def _means(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    sums: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.items():
            if _is_number(value):
                sums.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in sums.items()}


def _evaluations(folder: Path, training: Training | None) -> Iterator[Measured]:
    for file in evaluation_files(folder):
        result = read_evaluation(file)
        correct = _correct(file, result)
        # A run's folder may hold a measurement of the bare base as well: `agon eval RUN --adapter base`.
        is_base = result.get("method") is None
        yield Measured(str(folder), file.stem, None if is_base else training, result, correct)


def _correct(file: Path, result: Mapping[str, Any]) -> dict[str, list[bool]]:
    """Return each problem's right and wrong samples, and check what a row cannot do without."""
    is_whole = all(name in result for name in ("task", "split", "protocol")) and all(
        isinstance(result.get(name), dict) for name in ("players", "tokens")
    )
    rows = result.get("per_problem")
    if not rows or not is_whole:
        raise RunError(f"{file} is no evaluation with its per_problem outcomes: evaluate again, or remove the file")
    try:
        correct = {str(row["id"]): [bool(value) for value in row["correct"]] for row in rows}
    except (KeyError, TypeError):
        raise RunError(f"{file} is damaged in per_problem: evaluate again, or remove the file") from None
    sizes = {len(samples) for samples in correct.values()}
    if len(correct) < len(rows) or len(sizes) != 1 or 0 in sizes:
        raise RunError(
            f"{file} names a problem twice or has problems with other numbers of samples: evaluate again, or remove the file"
        )
    return correct


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
