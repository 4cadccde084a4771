"""The table [matrix] of a recipe: which arms, seeds and evaluations a matrix of runs has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from agon.config.names import did_you_mean
from agon.config.tables import Count, Table
from agon.errors import ConfigError
from agon.secrecy import holds_secret

Group = Literal["baseline", "exchange", "control", "normaliser", "length", "init"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+\-]{0,60}")
_RESERVED = ("base", "recipes")


class ArmTable(Table):
    """One row of a matrix: a method, and the settings that tell it from the recipe's."""

    name: str
    """Name of its run folders, and of the row."""
    title: str | None = None
    """What people read; None takes the name."""
    method: str | None = None
    """Training method; None takes the name."""
    group: Group | None = None
    """What the arm is there for; None takes `baseline` for methods of one adapter, else `exchange`."""
    set: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Settings of the arm's own, by `table.key`."""
    evaluations: tuple[str, ...] = ()
    """Evaluations of this arm beside those of its kind."""


class MatrixTable(Table):
    """Which arms are trained with which seeds, and how each is measured. Labels of evaluations: `agon.ablation.labels`."""

    seeds: tuple[Count, ...] = (0, 1, 2)
    """Training seeds: each gives every arm a run."""
    arms: tuple[ArmTable, ...] = ()
    """The arms; without any, `--methods` names them."""
    rivals: tuple[str, ...] = ()
    """Arms that every other is compared with."""
    base: tuple[str, ...] = ("single", "single-doubled-cap", "self-cascade", "moa-k2", "majority-k2")
    """Evaluations of the untrained base, made once."""
    one: tuple[str, ...] = ("single-a", "self-cascade-a", "majority-a")
    """Evaluations of every run that trained one adapter."""
    pair: Annotated[tuple[str, ...], Field(min_length=1)] = (
        "single-a",
        "single-b",
        "cascade-a-b",
        "cascade-b-a",
        "self-cascade-a",
        "majority-a",
        "microscope",
    )
    """Evaluations of every run that trained a pair; `microscope` looks at the pair itself."""


def matrix_table(tree: Mapping[str, Any], *, source: str) -> MatrixTable:
    """Check what a recipe says of its matrix (nothing: the defaults).

    Raises:
        ConfigError: an unknown key, a value of another type, a name twice or one that cannot be a folder.
    """
    try:
        table = MatrixTable.model_validate(_tuples(tree))
    except ValidationError as error:
        raise ConfigError(f"{source}: {_first_of(error)}") from None
    if not table.seeds:
        raise ConfigError(f"{source}: matrix.seeds is empty: name one or more, three to say anything of a method")
    require_distinct(table.seeds, what=f"{source}: matrix.seeds")
    require_distinct([arm.name for arm in table.arms], what=f"{source}: the names of matrix.arms")
    for arm in table.arms:
        require_folder_name(arm.name, source=source)
    return table


def flat_settings(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return `set` of an arm by `table.key`, whether it was written so or as tables."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{name}": inner for name, inner in value.items()}
        else:
            flat[key] = value
    return flat


def require_folder_name(name: str, *, source: str) -> None:
    """Check that an arm's name can be part of a folder's name.

    Raises:
        ConfigError: it cannot.
    """
    if not _NAME.fullmatch(name) or name in _RESERVED or holds_secret(name):
        raise ConfigError(
            f"{source}: an arm is named {name!r}: use letters, digits and . _ + - (at most 61), but not {' or '.join(_RESERVED)}"
        )


def require_distinct(values: Sequence[Any], *, what: str) -> None:
    """Check that nothing is named twice.

    Raises:
        ConfigError: names what is.
    """
    twice = sorted({str(value) for value in values if values.count(value) > 1})
    if twice:
        raise ConfigError(f"{what} hold {', '.join(twice)} twice: name each once")


def _first_of(error: ValidationError) -> str:
    """Say the first thing that pydantic found wrong, in one line."""
    first = error.errors()[0]
    where = "matrix" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = (ArmTable if "arms" in first["loc"] else MatrixTable).model_fields
        return f"unknown key {where}{did_you_mean(str(first['loc'][-1]), known)}; known: {', '.join(known)}"
    if first["type"] == "missing":
        return f"{where} is missing: every arm needs it"
    return f"{where} is {first['input']!r}: {first['msg']}"


def _tuples(tree: Any) -> Any:
    """TOML gives lists where the tables hold tuples; what an arm sets stays as it is written."""
    if isinstance(tree, Mapping):
        return {key: value if key == "set" else _tuples(value) for key, value in tree.items()}
    return tuple(map(_tuples, tree)) if isinstance(tree, list) else tree
