"""Fill the templates. Everything that came from a model, a data set or a user is escaped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import agon
from agon.metrics import METRICS, PACE, TIMINGS
from agon.report.collect import Collected, Run
from agon.report.curves import MAX_POINTS, curves_json
from agon.report.exchange import CELLS
from agon.report.pace import PARTS, pace_rows
from agon.report.reader import MAX_CHARACTERS, fill_shelves
from agon.report.tables import axis_of, budget_rows, exchange_rows, general_warnings, interval_legend, result_rows

_DASH = "–"


def render(collected: Collected) -> str:
    """Return the page."""
    shelves = fill_shelves(collected)
    results = result_rows(collected.evaluations)
    page = (
        _environment()
        .get_template("report.html.j2")
        .render(
            asset=_asset,
            version=agon.__version__,
            title=collected.title,
            warnings=general_warnings(collected),
            results=results,
            axis=axis_of(results),
            legend=interval_legend(collected.evaluations),
            seeds=_evaluation_seeds(collected),
            exchange=exchange_rows(collected.evaluations, shelves.evaluations),
            budget=budget_rows(collected.runs),
            pace=pace_rows(collected.runs),
            parts=PARTS,
            curves=curves_json(collected.runs),
            max_points=MAX_POINTS,
            shelves=[shelf.to_json() for shelf in shelves.all],
            cut_shelves=[shelf for shelf in shelves.all if shelf.is_cut],
            max_characters=MAX_CHARACTERS,
            cells=dict(CELLS),
            differing=differing_settings(collected.runs),
            runs=collected.runs,
            versions=_versions(collected.runs),
            glossary=_glossary(),
        )
    )
    # Half of a surrogate pair cannot be written as UTF-8.
    return page.encode(errors="replace").decode()


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
        "share": _share,
        "tokens": _tokens,
        "whole": _whole,
        "short": _short,
        "duration": _duration,
        "data": _data,
        "flat": _flat,
    }
    environment.filters.update(filters)
    return environment


def _asset(name: str) -> Markup:
    """Return a file of ours as it is. It must hold no closing script or style tag."""
    return Markup((resources.files("agon.report") / "templates" / name).read_text(encoding="utf-8"))


def _data(tree: Any) -> Markup:
    """Return JSON that cannot end the script element it stands in, whatever text it holds."""
    return Markup(json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"))


def _share(value: float | None) -> str:
    return _DASH if value is None else f"{value:.3f}"


def _tokens(value: float | None) -> str:
    return _DASH if value is None else f"{value:,.1f}"


def _whole(value: int | None) -> str:
    return _DASH if value is None else f"{value:,}"


def _short(value: float | None) -> str:
    return _DASH if value is None else f"{value:g}"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return _DASH
    if seconds < 60:
        return f"{seconds:.1f} s"
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours} h {rest // 60:02d} min" if hours else f"{rest // 60} min {rest % 60:02d} s"


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
        return _DASH
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _versions(runs: Sequence[Run]) -> list[tuple[str, list[str]]]:
    """Return versions, hashes, platform and start of every run, one row each."""
    flat = [
        {
            **{str(name): str(value) for name, value in run.manifest.get("versions", {}).items()},
            **{f"hash of {name}": str(value) for name, value in run.manifest.get("hashes", {}).items()},
            "platform": str(run.manifest.get("platform", _DASH)),
            "begun": str(run.manifest.get("created", _DASH)),
        }
        for run in runs
    ]
    names = dict.fromkeys(name for row in flat for name in row)
    return [(name, [row.get(name, _DASH) for row in flat]) for name in names]


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
