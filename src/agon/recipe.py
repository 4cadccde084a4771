"""Recipes: settings read from TOML, unknown keys refused with the nearest known one.

A recipe has one table for each class of `agon.config`. `--set table.key=value` overrides one key.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel, ValidationError

from agon.config import Settings, did_you_mean
from agon.errors import ConfigError

TRUST_VARIABLE = "AGON_TRUST_RUNS"
"""Environment variable that, set to 1, lets run folders ask for what a person has to ask for."""

# What lets code run that nobody here has read: that of a model's folder, and programs of a model without isolation.
_ASKED_FOR = (("model", "trust_remote_code"), ("verifier", "unsafe_code_execution"))

MATRIX_TABLE = "matrix"
"""The table of a recipe that `agon ablate` alone reads: several runs, and no setting of one."""

_HEADER = re.compile(r"\s*\[\s*([\w-]+)\s*\]")
_KEY = re.compile(r"\s*([\w-]+(?:\s*\.\s*[\w-]+)?)\s*=")
_DOTTED = re.compile(r"[a-z_]+\.[a-z_]+")


class _Origin(NamedTuple):
    """Where settings come from: a file, the lines its keys stand in, and the keys that `--set` gave."""

    source: str
    lines: Mapping[str, int]
    overridden: frozenset[str]

    def of(self, *names: str) -> str:
        """Return what is to blame for a mistake in keys: `--set`, if it gave one of them."""
        if not self.overridden.isdisjoint(names):
            return "--set"
        line = next((self.lines[name] for name in names if name in self.lines), None)
        return self.source if line is None else f"{self.source}, line {line}"


def load_recipe(path: Path, overrides: Iterable[str] = ()) -> Settings:
    """Read a TOML recipe and apply `table.key=value` overrides.

    Raises:
        ConfigError: the file is missing or not TOML, a key is unknown, a value has the wrong type or cannot be used.
    """
    text = _read_text(path)
    return settings_from(_parse(text, path), overrides, source=str(path), lines=_lines_of(text))


def read_tables(path: Path) -> dict[str, Any]:
    """Return a recipe's tables as they are written, unchecked.

    Raises:
        ConfigError: the file is missing or not TOML.
    """
    return _parse(_read_text(path), path)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"recipe {path} does not exist: give a .toml file or a preset's name") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"recipe {path} cannot be read ({error}): give a UTF-8 text file") from None


def _parse(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"recipe {path} is not valid TOML: {error}{_told_twice(text, str(error))}") from None


def _told_twice(text: str, reason: str) -> str:
    """Name the key or table that stands in a recipe twice; the parser says only where. Nothing for any other reason."""
    if not reason.startswith("Cannot overwrite"):
        return ""
    place = re.search(r"at line (\d+)", reason)
    line = text.split("\n")[int(place[1]) - 1 if place else -1].strip()
    key, equals, _ = (line, "=", "") if line.startswith("[") else line.partition("=")
    # The last line of a value that has several names no key.
    return f": {repr(key.strip()) if equals else 'a key'} stands there for the second time, keep one of the two"


def _lines_of(text: str) -> dict[str, int]:
    """Return the lines in which a recipe's keys (table.key) and tables are written; a key in another form of TOML is left out."""
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if header := _HEADER.match(line):
            table = header[1]
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            name = re.sub(r"\s", "", key[1])
            lines.setdefault(f"{table}.{name}" if table else name, number)
    return lines


def settings_from(
    tree: Mapping[str, Any],
    overrides: Iterable[str] = (),
    *,
    source: str = "settings",
    lines: Mapping[str, int] | None = None,
) -> Settings:
    """Check a tree of tables (as TOML or JSON gives it) and apply overrides. `lines` says where in `source` keys stand.

    Raises:
        ConfigError: names the source (`--set` for what an override gave), the key and the remedy.
    """
    overrides = tuple(overrides)
    origin = _Origin(source, lines or {}, frozenset(override.partition("=")[0].strip() for override in overrides))
    _check_keys(tree, origin._replace(overridden=frozenset()))
    merged = with_overrides(tree, overrides)
    _check_keys(merged, origin)
    try:
        return Settings.model_validate(_tuples(merged))
    except ValidationError as error:
        raise ConfigError(_one_line(error, origin)) from None


def saved_settings(
    tree: Mapping[str, Any],
    overrides: Iterable[str] = (),
    *,
    source: str,
    asked: Settings | None = None,
    tables: Container[str] = ("model", "verifier"),
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Check the settings that a run folder holds, and apply overrides.

    A run folder may come from anywhere. What lets code run that it, or a model, brings is therefore asked for by who opens it: in
    `overrides`, in the settings `asked`, or in the environment. `tables` are those that will be made use of.

    Raises:
        ConfigError: it asks for that itself; or as `settings_from`.
    """
    overrides = tuple(overrides)
    settings = settings_from(tree, overrides, source=source)
    chosen = {override.partition("=")[0].strip() for override in overrides}
    is_trusted = (os.environ if environ is None else environ).get(TRUST_VARIABLE) == "1"
    for table, name in _ASKED_FOR:
        is_asked = f"{table}.{name}" in chosen or (asked is not None and getattr(getattr(asked, table), name))
        if table in tables and getattr(getattr(settings, table), name) and not (is_asked or is_trusted):
            raise ConfigError(
                f"{source} asks for {table}.{name}, which lets code run that came with it or from a model: if you trust it, add "
                f"--set {table}.{name}=true, or set {TRUST_VARIABLE}=1 in the environment"
            )
    return settings


def with_overrides(tree: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Return a tree of tables with `table.key=value` overrides applied, unchecked.

    Raises:
        ConfigError: an override has another form.
    """
    merged = {name: dict(table) if isinstance(table, Mapping) else table for name, table in tree.items()}
    for override in overrides:
        _apply_override(merged, override)
    return merged


def _apply_override(tree: dict[str, Any], override: str) -> None:
    key, equals, value = override.partition("=")
    table, dot, name = key.strip().partition(".")
    if not (equals and dot and name):
        raise ConfigError(f"--set {override!r} is not of the form table.key=value, e.g. train.steps=50")
    inner = tree.setdefault(table, {})
    if not isinstance(inner, dict):
        raise ConfigError(f"--set {override!r}: {table} is not a table")
    inner[name] = _parse_value(value.strip(), choices=_choices(table, name))


def _choices(table: str, name: str) -> tuple[Any, ...]:
    """Return the words that a key takes, if it takes nothing else."""
    info = Settings.model_fields.get(table)
    field = None if info is None else _fields_of(info.annotation).get(name)
    return () if field is None else get_args(field.annotation)


def _parse_value(text: str, *, choices: Container[Any]) -> Any:
    """Read a value as TOML would, and take what TOML cannot read as a plain string. `none` is no value, where it is no word of the key's own."""
    if text in ("none", "null") and text not in choices:
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _check_keys(tree: Mapping[str, Any], origin: _Origin) -> None:
    tables = Settings.model_fields
    for table, inner in tree.items():
        if table == MATRIX_TABLE:
            raise ConfigError(
                f"{origin.source} describes a matrix of runs ([{MATRIX_TABLE}]): start it with `agon ablate`"
            )
        keys = list(inner) if isinstance(inner, Mapping) else []
        where = origin.of(table, *(f"{table}.{key}" for key in keys))
        if table not in tables:
            owners = [name for name, info in tables.items() if table in _fields_of(info.annotation)]
            hint = f" (did you mean {owners[0]}.{table}?)" if owners else did_you_mean(table, tables)
            raise ConfigError(f"{where}: unknown table or key {table!r}{hint}; tables: {', '.join(tables)}")
        if not isinstance(inner, Mapping):
            raise ConfigError(f"{where}: {table} is {inner!r}, but it is a table: write [{table}] and its keys below")
        known = _fields_of(tables[table].annotation)
        for key in keys:
            if key not in known:
                owners = [name for name, info in tables.items() if key in _fields_of(info.annotation)]
                near = did_you_mean(key.replace("-", "_"), known)
                hint = f" (did you mean {owners[0]}.{key}?)" if owners else near
                raise ConfigError(
                    f"{origin.of(f'{table}.{key}')}: unknown key {table}.{key}{hint}; known: {', '.join(known)}"
                )


def _fields_of(annotation: Any) -> Mapping[str, Any]:
    return annotation.model_fields if isinstance(annotation, type) and issubclass(annotation, BaseModel) else {}


def _tuples(tree: Any) -> Any:
    """Lists become tuples, and whole numbers are allowed where a float is wanted; strict mode would refuse both."""
    tree = {table: dict(inner) for table, inner in tree.items()}
    for table, inner in tree.items():
        fields = _fields_of(Settings.model_fields[table].annotation)
        for key, value in inner.items():
            if isinstance(value, list):
                inner[key] = tuple(value)
            elif isinstance(value, int) and not isinstance(value, bool) and _wants_float(fields[key].annotation):
                inner[key] = float(value)
    return tree


def _wants_float(annotation: Any) -> bool:
    return annotation is float or any(_wants_float(part) for part in get_args(annotation))


def _one_line(error: ValidationError, origin: _Origin) -> str:
    told: list[str] = []
    blamed = ""
    for item in error.errors():
        name = ".".join(str(part) for part in item["loc"] if isinstance(part, str) and part in _all_names())
        message = item["msg"].removeprefix("Value error, ")
        value = "" if item["type"] == "value_error" else f" is {item['input']!r}: "
        part = f"{name}{value}{message}"
        where = origin.of(*([name] if name else _DOTTED.findall(message)))
        told.append(part if where == blamed else f"{where}: {part}")
        blamed = where
    return "; ".join(dict.fromkeys(told))


def _all_names() -> set[str]:
    names = set(Settings.model_fields)
    for info in Settings.model_fields.values():
        names |= set(_fields_of(info.annotation))
    return names


def describe_settings(settings: Settings) -> str:
    """Render resolved settings as TOML, one table a class."""
    lines: list[str] = []
    for table, inner in settings.model_dump(mode="json").items():
        lines.append(f"[{table}]")
        # TOML has no null: a key that is not set is shown as a comment, so that the text can be read back as a recipe.
        lines += [
            f"# {key} is not set" if value is None else f"{key} = {json.dumps(value, ensure_ascii=False)}"
            for key, value in inner.items()
        ]
        lines.append("")
    return "\n".join(lines)
