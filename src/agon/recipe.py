"""Recipes: settings read from TOML, unknown keys refused with the nearest known one.

A recipe has one table for each class of `agon.config`. `--set table.key=value` overrides one key.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from agon.config import Settings, did_you_mean
from agon.errors import ConfigError

TRUST_VARIABLE = "AGON_TRUST_RUNS"
"""Environment variable that, set to 1, lets run folders ask for what a person has to ask for."""

# What lets code run that nobody here has read: that of a model's folder, and programs of a model without isolation.
_ASKED_FOR = (("model", "trust_remote_code"), ("verifier", "unsafe_code_execution"))

MATRIX_TABLE = "matrix"
"""The table of a recipe that `agon ablate` alone reads: several runs, and no setting of one."""


def load_recipe(path: Path, overrides: Iterable[str] = ()) -> Settings:
    """Read a TOML recipe and apply `table.key=value` overrides.

    Raises:
        ConfigError: the file is missing or not TOML, a key is unknown, a value has the wrong type or cannot be used.
    """
    return settings_from(read_tables(path), overrides, source=str(path))


def read_tables(path: Path) -> dict[str, Any]:
    """Return a recipe's tables as they are written, unchecked.

    Raises:
        ConfigError: the file is missing or not TOML.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"recipe {path} does not exist: give a .toml file or a preset's name") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"recipe {path} cannot be read ({error}): give a UTF-8 text file") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"recipe {path} is not valid TOML: {error}") from None


def settings_from(tree: Mapping[str, Any], overrides: Iterable[str] = (), *, source: str = "settings") -> Settings:
    """Check a tree of tables (as TOML or JSON gives it) and apply overrides.

    Raises:
        ConfigError: names the source, the key and the remedy.
    """
    merged = with_overrides(tree, overrides)
    _check_keys(merged, source)
    try:
        return Settings.model_validate(_tuples(merged))
    except ValidationError as error:
        raise ConfigError(f"{source}: {_one_line(error)}") from None


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
    inner[name] = _parse_value(value.strip())


def _parse_value(text: str) -> Any:
    """Read a value as TOML would, and take what TOML cannot read as a plain string."""
    if text in ("none", "null"):
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _check_keys(tree: Mapping[str, Any], source: str) -> None:
    tables = Settings.model_fields
    for table, inner in tree.items():
        if table == MATRIX_TABLE:
            raise ConfigError(f"{source} describes a matrix of runs ([{MATRIX_TABLE}]): start it with `agon ablate`")
        if table not in tables:
            owners = [name for name, info in tables.items() if table in _fields_of(info.annotation)]
            hint = f" (did you mean {owners[0]}.{table}?)" if owners else did_you_mean(table, tables)
            raise ConfigError(f"{source}: unknown table or key {table!r}{hint}; tables: {', '.join(tables)}")
        if not isinstance(inner, Mapping):
            raise ConfigError(f"{source}: {table} is {inner!r}, but it is a table: write [{table}] and its keys below")
        known = _fields_of(tables[table].annotation)
        for key in inner:
            if key not in known:
                owners = [name for name, info in tables.items() if key in _fields_of(info.annotation)]
                near = did_you_mean(key.replace("-", "_"), known)
                hint = f" (did you mean {owners[0]}.{key}?)" if owners else near
                raise ConfigError(f"{source}: unknown key {table}.{key}{hint}; known: {', '.join(known)}")


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


def _one_line(error: ValidationError) -> str:
    parts: list[str] = []
    for item in error.errors():
        where = ".".join(str(part) for part in item["loc"] if isinstance(part, str) and part in _all_names())
        message = item["msg"].removeprefix("Value error, ")
        value = "" if item["type"] == "value_error" else f" is {item['input']!r}: "
        parts.append(f"{where}{value}{message}")
    return "; ".join(dict.fromkeys(parts))


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
