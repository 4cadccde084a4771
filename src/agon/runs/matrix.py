"""A matrix of runs as `agon ablate` writes it: ordinary runs in cells/, evaluations of the base, and matrix.json that says what is what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, cast

from agon.errors import RunError
from agon.runs.manifest import FORMAT_VERSION, MATRIX, installed_versions, read_json, require_kind, write_json

BASE = "base"
"""Folder of the evaluations of the untrained base."""


@dataclass(frozen=True, slots=True)
class MatrixArm:
    """One row of a matrix: a method with the settings (`table.key`) that tell it from the recipe; `group` says what it is there for."""

    name: str
    title: str
    method: str
    group: str
    set: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def trains_like(self, other: MatrixArm) -> bool:
        """Tell whether two arms have one method and settings, whatever they are called."""
        return (self.method, dict(self.set)) == (other.method, dict(other.set))


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One arm with one seed, and its run folder below the matrix. Arms of equal settings share a run."""

    arm: str
    seed: int
    run: str


@dataclass(frozen=True, slots=True)
class Matrix:
    """What matrix.json holds. `rivals` are the arms that every other is to be compared with."""

    recipe: str
    seeds: tuple[int, ...]
    arms: tuple[MatrixArm, ...]
    cells: tuple[MatrixCell, ...]
    rivals: tuple[str, ...] = ()
    base: str = BASE

    @property
    def runs(self) -> tuple[str, ...]:
        """The run folders, each once."""
        return tuple(dict.fromkeys(cell.run for cell in self.cells))


def write_matrix(path: Path, matrix: Matrix) -> None:
    """Write matrix.json into a folder that is there.

    Raises:
        RunError: the place cannot be written to.
    """
    head = {"format": "agon matrix", "format_version": FORMAT_VERSION, "versions": installed_versions()}
    write_json(path / MATRIX, {**head, **asdict(matrix)})


def read_matrix(path: Path) -> Matrix:
    """Return what a matrix folder says of itself.

    Raises:
        RunError: it is no matrix, of another format version, or damaged.
    """
    require_kind(path, "matrix")
    content = read_json(path / MATRIX)
    try:
        matrix = Matrix(
            recipe=_text(content["recipe"]),
            seeds=tuple(int(seed) for seed in content["seeds"]),
            arms=tuple(_arm(item) for item in content["arms"]),
            cells=tuple(
                MatrixCell(_text(item["arm"]), int(item["seed"]), _below(item["run"])) for item in content["cells"]
            ),
            rivals=tuple(_text(name) for name in content.get("rivals", ())),
            base=_below(content["base"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{path / MATRIX} is damaged ({error!r}): restore it from a copy") from None
    unknown = {cell.arm for cell in matrix.cells} - {arm.name for arm in matrix.arms}
    if unknown:
        raise RunError(
            f"{path / MATRIX} has cells of {', '.join(sorted(unknown))}, which it names no arm: restore it from a copy"
        )
    return matrix


def _arm(item: Mapping[str, Any]) -> MatrixArm:
    changes = item.get("set", {})
    if not isinstance(changes, dict):
        raise TypeError(f"set is {changes!r}")
    names = (_text(item[name]) for name in ("name", "title", "method", "group"))
    return MatrixArm(*names, set=cast("dict[str, Any]", changes))


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is no name")
    return value


def _below(value: Any) -> str:
    """Return a path that does not lead out of the matrix."""
    path = PurePosixPath(_text(value))
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError(f"{value!r} is no folder below the matrix")
    return str(path)
