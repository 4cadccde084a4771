"""A matrix planned: every arm's settings for every seed, what each cell costs and how it is measured, before anything starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agon.ablation.labels import MICROSCOPE, wish_named
from agon.ablation.matrix import (
    ArmTable,
    MatrixTable,
    flat_settings,
    matrix_table,
    require_distinct,
    require_folder_name,
)
from agon.config import Settings, did_you_mean
from agon.errors import ConfigError
from agon.methods.registry import method_named
from agon.methods.settle import settled
from agon.recipe import MATRIX_TABLE, settings_from, with_overrides
from agon.records import METHODS
from agon.runs.matrix import Matrix, MatrixArm, MatrixCell
from agon.train.budget import Budget, plan_budget

CELLS = "cells"
# What an arm may change. Problems, base and measurement are the matrix's own: other arms could not be compared with it.
_TABLES_OF_ARMS = ("adapter", "reward", "rollout", "train")
_GIVEN_TO_CELLS = {"train.method": "--methods", "train.seed": "--seeds"}


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """One training: its folder below `cells/`, the arms and the seed it stands for, its settled settings, how it is measured."""

    name: str
    arms: tuple[str, ...]
    seed: int
    settings: Settings
    evaluations: tuple[str, ...]

    @property
    def run(self) -> str:
        """The run folder below the matrix."""
        return f"{CELLS}/{self.name}"

    @property
    def has_pair(self) -> bool:
        """Whether it trains two adapters."""
        return trains_pair(self.settings)


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole matrix. `cells` are the trainings in the order in which they start; `budgets` by arm."""

    matrix: Matrix
    cells: tuple[PlannedCell, ...]
    base: Settings
    base_evaluations: tuple[str, ...]
    budgets: Mapping[str, Budget]


class _Arm(NamedTuple):
    table: ArmTable
    method: str
    set: dict[str, Any]


def plan_matrix(
    tree: Mapping[str, Any],
    overrides: Sequence[str] = (),
    *,
    source: str,
    name: str,
    methods: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
) -> Plan:
    """Plan the matrix of a recipe's tables. `methods` names some of its arms, or further methods; `seeds` replaces its seeds.

    Arms whose settings come out the same share their runs. Seeds come one after the other, so that a matrix which is stopped has
    every arm for the first of them.

    Raises:
        ConfigError: the recipe, an arm or a label cannot be used, or the arms' budgets differ.
        ModelError: the base cannot be found.
    """
    merged = with_overrides(tree, overrides)
    table = matrix_table(merged.pop(MATRIX_TABLE, {}), source=source)
    arms = _chosen_arms(table, methods, source=source)
    _refuse_crossed(overrides, arms)
    wanted = tuple(seeds) if seeds is not None else table.seeds
    require_distinct(wanted, what="--seeds")
    settings = {
        (arm.table.name, seed): _settings_of(arm, seed, merged, source=source) for seed in wanted for arm in arms
    }
    budgets = {arm.table.name: plan_budget(settings[arm.table.name, wanted[0]]) for arm in arms}
    require_equal_budgets(budgets, settings={arm.table.name: settings[arm.table.name, wanted[0]] for arm in arms})
    cells, run_of = _shared_cells(arms, wanted, settings, table)
    for label in table.base:
        _check_base(label)
    matrix = Matrix(
        recipe=name,
        seeds=wanted,
        arms=tuple(_described(arm) for arm in arms),
        cells=tuple(MatrixCell(arm.table.name, seed, run_of[arm.table.name, seed]) for arm in arms for seed in wanted),
        rivals=_rivals(table, arms, source=source),
    )
    return Plan(matrix, cells, settings_from(merged, source=source), tuple(dict.fromkeys(table.base)), budgets)


def require_equal_budgets(budgets: Mapping[str, Budget], *, settings: Mapping[str, Settings]) -> None:
    """Check that every arm samples the same number of rollouts of each problem, and goes over as many problems.

    Raises:
        ConfigError: they do not; names every number.
    """
    per_problem = {name: budget.rollouts_per_problem for name, budget in budgets.items()}
    problems = {name: own.train.problems_per_step * own.train.steps for name, own in settings.items()}
    for counts, what, key in (
        (per_problem, "rollouts of each problem", "train.group_size"),
        (problems, "problems", "train.steps times train.problems_per_step"),
    ):
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise ConfigError(f"the arms do not take equally many {what} ({listed}): give all of them the same {key}")


def _chosen_arms(table: MatrixTable, methods: Sequence[str] | None, *, source: str) -> list[_Arm]:
    by_name = {arm.name: arm for arm in table.arms}
    if methods is None:
        tables = list(table.arms)
        if not tables:
            raise ConfigError(
                f"{source} has no [[matrix.arms]]: name the methods with --methods; known: {', '.join(METHODS)}"
            )
    else:
        require_distinct(methods, what="--methods")
        tables = [by_name[name] if name in by_name else _arm_of_method(name, by_name) for name in methods]
        require_distinct([arm.name for arm in tables], what="the arms of --methods")
    return [_Arm(arm, arm.method or arm.name, flat_settings(arm.set)) for arm in tables]


def _arm_of_method(method: str, known: Iterable[str]) -> ArmTable:
    known = (*known, *(name for name in METHODS if name not in known))
    if ":" not in method and method not in METHODS:
        raise ConfigError(
            f"--methods names {method!r}, which is neither an arm nor a method{did_you_mean(method, known)}; known: {', '.join(known)}"
        )
    name = method.rpartition(":")[2]
    require_folder_name(name, source="--methods")
    return ArmTable(name=name, method=method)


def _refuse_crossed(overrides: Sequence[str], arms: Sequence[_Arm]) -> None:
    """An override of what the cells differ in would be lost in some of them."""
    for key in (override.partition("=")[0].strip() for override in overrides):
        if key in _GIVEN_TO_CELLS:
            raise ConfigError(
                f"--set {key} was given, but the cells of a matrix differ in it: use {_GIVEN_TO_CELLS[key]}"
            )
        own = [arm.table.name for arm in arms if key in arm.set]
        if own:
            raise ConfigError(f"--set {key} was given, but {', '.join(own)} has its own: change the recipe")


def _settings_of(arm: _Arm, seed: int, tree: Mapping[str, Any], *, source: str) -> Settings:
    merged = {name: dict(table) if isinstance(table, Mapping) else table for name, table in tree.items()}
    for key, value in arm.set.items():
        table, _, name = key.partition(".")
        if table not in _TABLES_OF_ARMS or not name or key in _GIVEN_TO_CELLS:
            raise ConfigError(
                f"{source}: the arm {arm.table.name} sets {key!r}, which no arm may: its settings are table.key of "
                f"{', '.join(_TABLES_OF_ARMS)}, without train.method and train.seed"
            )
        merged[table] = {**merged.get(table, {}), name: value}
    merged["train"] = {**merged.get("train", {}), "method": arm.method, "seed": seed}
    return settled(settings_from(merged, source=f"{source}, arm {arm.table.name}"))


def _shared_cells(
    arms: Sequence[_Arm], seeds: Sequence[int], settings: Mapping[tuple[str, int], Settings], table: MatrixTable
) -> tuple[tuple[PlannedCell, ...], dict[tuple[str, int], str]]:
    """Return the trainings, each once, and the run folder of every arm and seed."""
    cells: dict[str, PlannedCell] = {}
    run_of: dict[tuple[str, int], str] = {}
    for seed in seeds:
        for arm in arms:
            name = arm.table.name
            own = settings[name, seed]
            labels = (*(table.pair if trains_pair(own) else table.one), *arm.table.evaluations)
            _check_labels(labels, own, arm=name)
            key = own.model_dump_json()
            before = cells.get(key)
            cells[key] = PlannedCell(
                name=f"{name}-s{seed}" if before is None else before.name,
                arms=(name,) if before is None else (*before.arms, name),
                seed=seed,
                settings=own,
                evaluations=tuple(dict.fromkeys((*(() if before is None else before.evaluations), *labels))),
            )
            run_of[name, seed] = cells[key].run
    return tuple(cells.values()), run_of


def _check_labels(labels: Iterable[str], settings: Settings, *, arm: str) -> None:
    for label in labels:
        if label == MICROSCOPE and trains_pair(settings):
            continue
        if label == MICROSCOPE:
            raise ConfigError(f"{label!r} looks at a pair, but the arm {arm} trains one adapter: leave it out")
        wish = wish_named(label)
        if not trains_pair(settings) and (wish.adapter == "b" or wish.protocol in ("cascade", "blind-second")):
            raise ConfigError(f"evaluation {label!r} needs two adapters, but the arm {arm} trains one: leave it out")


def _check_base(label: str) -> None:
    wish = wish_named(label)
    if wish.adapter is not None or wish.direction != "dev":
        raise ConfigError(f"evaluation {label!r} names a player, but the base has no adapters: write {wish.protocol}")


def _described(arm: _Arm) -> MatrixArm:
    group = arm.table.group or ("exchange" if method_named(arm.method).has_pair else "baseline")
    return MatrixArm(arm.table.name, arm.table.title or arm.table.name, arm.method, group, arm.set)


def _rivals(table: MatrixTable, arms: Sequence[_Arm], *, source: str) -> tuple[str, ...]:
    """The rivals among the arms that are run; one that the recipe does not know is a mistake."""
    names = [arm.table.name for arm in arms]
    unknown = [name for name in table.rivals if name not in names and name not in {arm.name for arm in table.arms}]
    if unknown:
        raise ConfigError(f"{source}: matrix.rivals names {', '.join(unknown)}, which is no arm of it")
    return tuple(name for name in table.rivals if name in names)


def trains_pair(settings: Settings) -> bool:
    """Tell whether a method deploys two adapters."""
    return method_named(settings.train.method).has_pair
