"""Write the pages of docs/ that are made from the code: metrics.md, cli.md and settings.md. `make docs` runs this."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from agon import errors, metrics
from agon.ablation.matrix import MatrixTable
from agon.cli.common import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE
from agon.cli.main import build_parser
from agon.config import Settings
from agon.metrics import METRICS, PACE, TIMINGS, Metric

DOCS = Path(__file__).parents[1] / "docs"
_HEADINGS = {
    "": "The step",
    "draft": "What was sampled and learned in a role",
    "match": "The two together",
    "pair": "The two adapters",
}


def metrics_page() -> str:
    """Return the page of every number that a training writes."""
    lines = [*_title("Metrics", "src/agon/metrics.py"), str(metrics.__doc__).strip(), "", "## `metrics.jsonl`", ""]
    for family, heading in _HEADINGS.items():
        # Both roles have the same numbers.
        names = {name: f"`{name}`" for name, metric in METRICS.items() if metric.family == family}
        if family == "draft":
            names = {name: f"`{name}`, `challenge/{name.removeprefix('draft/')}`" for name in names}
        lines += [f"### {heading}", "", *_metric_table({shown: METRICS[name] for name, shown in names.items()})]
    lines += ["## `timings.jsonl`", "", "One line a step as well, with its `step`. Older runs have less.", ""]
    lines += _metric_table({f"`{name}`": metric for name, metric in TIMINGS.items()})
    lines += ["## Pace, in a report", "", "Worked out from both lines of a step; in no file.", ""]
    return "\n".join([*lines, *_metric_table({f"`{name}`": metric for name, metric in PACE.items()})])


def cli_page() -> str:
    """Return the page of every command, its arguments, and the exit codes."""
    parser = build_parser()
    lines = [*_title("Command line", "src/agon/cli"), str(parser.description), ""]
    lines += ["Every command has `--help`; `agon --version` tells the version.", "", "## Exit codes", ""]
    lines += [
        *_table(("code", "when"), _exit_codes()),
        "`verify`, `data check` and `doctor` say below what theirs mean.",
        "",
    ]
    for command in _commands(parser):
        lines += [f"## `{command.prog}`", "", _cell(command.description), ""]
        arguments = [action for action in command._actions if action.dest != "help"]
        if arguments:
            lines += _table(("argument", "meaning"), [(_argument(one), _meaning(one)) for one in arguments])
        for group in command._action_groups:
            if group.description:
                first, last = group._group_actions[0], group._group_actions[-1]
                lines += [f"`{first.option_strings[0]}` to `{last.option_strings[0]}`: {_cell(group.description)}", ""]
    return "\n".join(lines)


def settings_page() -> str:
    """Return the page of every key of a recipe."""
    schema = Settings.model_json_schema()
    lines = _title("Settings", "src/agon/config")
    lines += [
        "A recipe is a TOML file with one table for each heading below. A key that it leaves out has the default; an unknown one is refused.",
        "`--set table.key=value` overrides one key, with `none` for a value that is not set (None). `agon train RECIPE.toml --dry-run` prints",
        "all of them as they came out: a [method](methods.md) may stand for settings of its own in `[train]`.",
        "",
    ]
    for name, field in schema["properties"].items():
        table = schema["$defs"][field["$ref"].rpartition("/")[2]]
        lines += [f"## `[{name}]`", "", table["description"], "", *_settings_table(table)]
    matrix = MatrixTable.model_json_schema()
    lines += [
        "## `[matrix]`",
        "",
        f"Read by `agon ablate` alone ([ablation.md](ablation.md)). {matrix['description']}",
        "",
    ]
    arm = matrix["$defs"]["ArmTable"]
    lines += [*_settings_table(matrix), "### `[[matrix.arms]]`", "", arm["description"], "", *_settings_table(arm)]
    return "\n".join(lines)


PAGES: dict[Path, Callable[[], str]] = {
    DOCS / "metrics.md": metrics_page,
    DOCS / "cli.md": cli_page,
    DOCS / "settings.md": settings_page,
}
"""Every page that is made from the code, and what makes it."""


def _title(title: str, source: str) -> list[str]:
    return [f"# {title}", "", f"<!-- Made from {source} by `make docs`: change it there. -->", ""]


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    head = list(head)
    return [_row(head), "|---" * len(head) + "|", *map(_row, rows), ""]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str | None) -> str:
    return " ".join(str(text or "").split()).replace("|", "\\|")


def _metric_table(named: dict[str, Metric]) -> list[str]:
    rows = [(name, one.unit, _cell(one.formula), _cell(one.bad)) for name, one in named.items()]
    return _table(("name", "unit", "formula", "a bad value"), rows)


def _exit_codes() -> list[tuple[str, str]]:
    said = {
        0: ["Done."],
        EXIT_FAILED: ["Failed: one line says why, and what to do."],
        EXIT_USAGE: ["A usage error."],
        EXIT_INTERRUPTED: ["Interrupted; a training is saved, and `--resume` continues it."],
    }
    # Not what other modules make of them, which depends on what is loaded.
    for kind in (one for one in errors.AgonError.__subclasses__() if one.__module__ == errors.__name__):
        said.setdefault(kind.exit_code, []).append(_cell(kind.__doc__))
    return [(str(code), " ".join(said[code])) for code in sorted(said)]


def _commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield every command that can be run, those of a command with parts one by one."""
    for action in parser._actions:
        # Only a choice of commands is a mapping: from names to parsers.
        for inner in action.choices.values() if isinstance(action.choices, dict) else ():
            yield from list(_commands(inner)) or [inner]


def _argument(action: argparse.Action) -> str:
    names = list(action.choices) if action.choices else []
    value = str(action.metavar) if action.metavar else "|".join(map(str, names)) or action.dest.upper()
    if not action.option_strings:
        shown = value + (" ..." if action.nargs in ("*", "+") else "")
        shown = f"[{shown}]" if action.nargs in ("?", "*") else shown
    else:
        shown = " ".join([*action.option_strings, *([] if action.nargs == 0 else [value])])
    several = "; several times" if type(action).__name__ == "_AppendAction" else ""
    return f"`{_cell(shown)}`{'; must be given' if action.option_strings and action.required else several}"


def _meaning(action: argparse.Action) -> str:
    text, default = str(action.help) % vars(action), action.default
    if default is None or default is False or default == []:
        return _cell(text)
    shown = f"{default:g}" if isinstance(default, float) else str(default)
    # Many a help text says it in words, or in brackets.
    return _cell(text if "default" in text or f"({shown})" in text else f"{text} (default: {shown})")


def _settings_table(table: dict[str, Any]) -> list[str]:
    rows = [
        (f"`{key}`", _cell(_type(field)), _default(field), _cell(field.get("description")))
        for key, field in table["properties"].items()
    ]
    return _table(("key", "type", "default", "meaning"), rows)


def _default(field: dict[str, Any]) -> str:
    if "default" not in field:
        return "`{}`" if field["type"] == "object" else "must be given"
    value = field["default"]
    return "not set" if value is None else f"`{json.dumps(value, ensure_ascii=False)}`"


def _type(field: dict[str, Any]) -> str:
    """Say what a JSON schema lets through."""
    if "anyOf" in field:
        return " or ".join(_type(one) for one in field["anyOf"] if one.get("type") != "null")
    if "enum" in field or "const" in field:
        return ", ".join(f"`{one}`" for one in field.get("enum", [field.get("const")]))
    if field.get("type") == "array":
        return f"list ({_type(field['items'])})" if "type" in field["items"] else "tables"
    names = {
        "integer": "whole number",
        "number": "number",
        "boolean": "`true` or `false`",
        "string": "text",
        "object": "table",
    }
    return names[field["type"]] + _limits(field)


def _limits(field: dict[str, Any]) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    limits = [f"{sign} {field[name]:g}" for name, sign in signs.items() if name in field]
    return f" {', '.join(limits)}" if limits else ""


def main() -> None:
    """Write every page."""
    for path, text in {path: make() for path, make in PAGES.items()}.items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(DOCS.parent))


if __name__ == "__main__":
    main()
