"""Fill the templates. Everything that came from a model, a data set or a user is escaped."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import agon
from agon.errors import RunError
from agon.metrics import METRICS, PACE, TIMINGS
from agon.report.alarms import alarm_rows
from agon.report.collect import Collected, Run, narrowed, owned
from agon.report.curves import MAX_POINTS, curves_json
from agon.report.exchange import CELLS
from agon.report.formats import DASH, duration, number, p_value, rounded, share, short, signed, tokens, whole
from agon.report.matrix.arms import owners_of
from agon.report.matrix.settings import ByValue, by_value
from agon.report.matrix.shelves import choose_shelves
from agon.report.matrix.tree import Tree, detail_of, group_title, protocol_of, title_of, way_of
from agon.report.matrix.view import MatrixView, matrix_view
from agon.report.microscope import ALIKE, DOING, Subject, microscope_view
from agon.report.notes import NotedRow, notes_once
from agon.report.pace import PARTS, pace_rows, untimed_steps
from agon.report.reader import MAX_CHARACTERS, Shelf, fill_shelves
from agon.report.tables import axis_of, budget_rows, exchange_rows, general_warnings, interval_legend, result_rows
from agon.secrecy import redact

MAX_RUNS_IN_FULL = 8
"""Most runs, begun or not, that a page shows one by one beside a comparison; of more it shows the arms, and few of their matches."""

_SCRIPTS = ("common.js", "tables.js", "charts.js", "reader.js")
_MATRIX_SCRIPTS = ("matrix/filter.js", "matrix/frontier.js")
_MAX_WARNINGS = 8
_MAX_ALARMS = 40


def render(collected: Collected, comparison: Mapping[str, Any] | None = None, *, is_narrowed: bool = False) -> str:
    """Return the page. `comparison` is a comparison's tree as plain JSON; with a single run it adds nothing and is left out.

    `is_narrowed` leaves out evaluations on another task or split than the compared one, and says how many.

    Raises:
        ValueError: the tree is of another format version or contradicts itself.
        RunError: an examination of a pair is damaged, or a number is not finite.
    """
    matrix = None
    if comparison is not None and len(collected.runs) > 1:
        matrix = matrix_view(Tree.of(redact(comparison)), collected.runs)
        collected = owned(collected, owners_of(matrix.trained))
        if is_narrowed:
            subject = matrix.tree.subject
            collected = narrowed(collected, task=str(subject["task"]), split=str(subject["split"]))
    script = _script(*_SCRIPTS, *(_MATRIX_SCRIPTS if matrix is not None else ()))
    is_full = matrix is None or len(collected.runs) + len(collected.missing) <= MAX_RUNS_IN_FULL
    alarms = alarm_rows(collected.runs)
    page = (
        _environment()
        .get_template("report.html.j2")
        .render(
            asset=_asset,
            script=script,
            script_hash=_hash_of(script),
            version=agon.__version__,
            title=collected.title,
            warnings=_some(general_warnings(collected)),
            alarms=alarms[:_MAX_ALARMS],
            num_alarms=len(alarms),
            cells=dict(CELLS),
            glossary=_glossary(),
            max_points=MAX_POINTS,
            max_characters=MAX_CHARACTERS,
            runs=collected.runs,
            matrix=matrix,
            left_out=collected.left_out,
            is_full=is_full,
            curves=_curves(collected, matrix, is_full=is_full),
            microscope=microscope_view(_pairs(collected, matrix)),
            doing=DOING,
            alike=ALIKE,
            **(_parts_in_full(collected) if is_full or matrix is None else _parts_of_many(collected, matrix)),
        )
    )
    # Half of a surrogate pair cannot be written as UTF-8.
    return page.encode(errors="replace").decode()


def _parts_in_full(collected: Collected) -> dict[str, Any]:
    """Return what is shown run by run and evaluation by evaluation."""
    shelves = fill_shelves(collected)
    results = result_rows(collected.evaluations)
    return {
        "results": results,
        "axis": axis_of(results),
        "notes": notes_once(NotedRow(row.owner, row.label, row.notes) for row in results),
        "legend": interval_legend(collected.evaluations),
        "seeds": _evaluation_seeds(collected),
        "exchange": exchange_rows(collected.evaluations, shelves.evaluations),
        "budget": budget_rows(collected.runs),
        "pace": pace_rows(collected.runs),
        "untimed": untimed_steps(collected.runs),
        "parts": PARTS,
        "differing": differing_settings(collected.runs),
        "versions": _versions(collected.runs),
        "start": None,
        "num_left_out": 0,
        **_shelves(shelves.all),
    }


def _parts_of_many(collected: Collected, matrix: MatrixView) -> dict[str, Any]:
    """Return what stands for the parts of single runs where there are too many."""
    chosen = choose_shelves(matrix.tree)
    return {
        "exchange": None,
        "settings": by_value([dict(_flat(run.config)) for run in collected.runs], DASH),
        "versions": _versions_by_value(collected.runs),
        "start": chosen.start,
        "num_left_out": chosen.num_left_out,
        **_shelves(chosen.shelves),
    }


def _shelves(shelves: Sequence[Shelf]) -> dict[str, Any]:
    return {
        "shelves": [shelf.to_json() for shelf in shelves],
        "cut_shelves": [shelf for shelf in shelves if shelf.is_cut],
    }


def _pairs(collected: Collected, matrix: MatrixView | None) -> list[Subject]:
    """Return what the microscope shows as one row each: an arm, or a run."""
    if matrix is None:
        return [Subject(run.name, [(None, run)]) for run in collected.runs]
    return [Subject(arm.title, list(zip(arm.seeds, arm.runs, strict=True))) for arm in matrix.trained]


def _curves(collected: Collected, matrix: MatrixView | None, *, is_full: bool) -> Mapping[str, Any]:
    """Return curves of arms where an arm was trained more than once, else those of runs."""
    if matrix is not None and (not is_full or any(len(arm.runs) > 1 for arm in matrix.trained)):
        return matrix.curves
    return curves_json(collected.runs)


def _some(warnings: Sequence[str]) -> list[str]:
    """Return the first warnings, and how many are left."""
    if len(warnings) <= _MAX_WARNINGS:
        return list(warnings)
    return [*warnings[:_MAX_WARNINGS], f"and {len(warnings) - _MAX_WARNINGS} more warnings"]


def differing_settings(runs: Sequence[Run]) -> list[tuple[str, list[str]]]:
    """Return the settings in which the runs differ, each with its value in every run."""
    flat = [_flatten(run.config) for run in runs]
    keys = list(dict.fromkeys(key for settings in flat for key in settings))
    rows = [(key, [_shown(settings.get(key)) for settings in flat]) for key in keys]
    return [(key, values) for key, values in rows if len(set(values)) > 1]


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("agon.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {
        "share": share,
        "tokens": tokens,
        "whole": whole,
        "short": short,
        "duration": duration,
        "data": _data,
        "flat": _flat,
        "value": _shown,
        "signed": signed,
        "rounded": rounded,
        "number": number,
        "p_value": p_value,
        "detail_of": detail_of,
        "group_title": group_title,
        "protocol_of": protocol_of,
        "title_of": title_of,
        "way_of": way_of,
    }
    environment.filters.update(filters)
    return environment


def _asset(name: str) -> Markup:
    """Return a file of ours as it is. It must hold no closing script or style tag."""
    return Markup((resources.files("agon.report") / "templates" / name).read_text(encoding="utf-8"))


def _script(*names: str) -> Markup:
    """Return files of ours as the text of one script element."""
    return Markup("\n").join(map(_asset, names))


def _hash_of(script: Markup) -> str:
    """Return what the page's policy names its script by: a browser runs no other, should one get into the page."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _data(tree: Any) -> Markup:
    """Return JSON that cannot end the script element it stands in, whatever text it holds.

    Raises:
        RunError: it holds a number that is not finite, which JSON has no word for.
    """
    try:
        text = json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError as error:
        raise RunError(f"a number in the run folders cannot be shown ({error}): restore them from a copy") from None
    return Markup(text.replace("<", "\\u003c"))


def _flat(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(key, _shown(value)) for key, value in _flatten(config).items()]


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _shown(value: Any) -> str:
    if value is None:
        return DASH
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _versions(runs: Sequence[Run]) -> list[tuple[str, list[str]]]:
    """Return versions, hashes, platform and start of every run, one row each."""
    flat = [_versions_of(run) for run in runs]
    names = dict.fromkeys(name for row in flat for name in row)
    return [(name, [row.get(name, DASH) for row in flat]) for name in names]


def _versions_by_value(runs: Sequence[Run]) -> ByValue:
    """Sort versions, hashes and platforms by value. Every run began at another time: the first and the last are told."""
    versions = [_versions_of(run) for run in runs]
    begun = sorted(version.pop("begun") for version in versions)
    table = by_value(versions, DASH)
    return ByValue([*table.shared, ("begun", f"{begun[0]} to {begun[-1]}")], table.differing)


def _versions_of(run: Run) -> dict[str, str]:
    return {
        **{str(name): str(value) for name, value in run.manifest.get("versions", {}).items()},
        **{f"hash of {name}": str(value) for name, value in run.manifest.get("hashes", {}).items()},
        "platform": str(run.manifest.get("platform", DASH)),
        "begun": str(run.manifest.get("created", DASH)),
    }


def _evaluation_seeds(collected: Collected) -> str:
    seeds = {evaluation.result.get("seed") for evaluation in collected.evaluations} - {None}
    return ", ".join(map(str, sorted(seeds, key=str)))


def _glossary() -> list[tuple[str, str, str, str]]:
    """Every metric once; the two streams share theirs."""
    return [
        (name.replace("draft/", "draft/, challenge/"), metric.unit, metric.formula, metric.bad)
        for name, metric in (*METRICS.items(), *TIMINGS.items(), *PACE.items())
        if not name.startswith("challenge/")
    ]
