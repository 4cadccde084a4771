"""Folders of several runs: what they stand for. The quickstart's holds ordinary runs, and parent.json that names them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agon.errors import RunError
from agon.runs.atomic import is_leftover, output_errors
from agon.runs.lock import LOCK_FILE
from agon.runs.manifest import (
    CONFIG,
    DATA,
    FOLDERS,
    FORMAT_VERSION,
    PARENT,
    Kind,
    folder_kind,
    installed_versions,
    read_json,
    require_kind,
    write_json,
)
from agon.runs.matrix import read_matrix

UNFINISHED = frozenset({LOCK_FILE, CONFIG, DATA, *FOLDERS})
"""What a start of a run may leave behind when it is killed."""

_KINDS: tuple[Kind, ...] = ("run", "parent", "matrix")


def create_parent(path: Path, *, children: Sequence[str], default: str) -> None:
    """Make a folder for the runs named `children`, of which `default` is the one that `solve`, `serve` and `eval` take.

    Raises:
        RunError: the folder holds something else, or cannot be written to.
    """
    assert default in children, f"default run {default!r} is none of {children}"
    assert all(_is_plain(name) for name in children), f"{children} are not plain folder names"
    require_empty(path)
    with output_errors(path):
        path.mkdir(parents=True, exist_ok=True)
    content = {
        "format": "agon parent",
        "format_version": FORMAT_VERSION,
        "versions": installed_versions(),
        "children": list(children),
        "default": default,
    }
    write_json(path / PARENT, content)


def child_runs(path: Path) -> list[Path]:
    """Return the runs a folder stands for: itself if it is a run, every child or cell that its index names (begun or not) otherwise.

    Raises:
        RunError: it is none of them, or of another format version.
    """
    kind = require_kind(path, *_KINDS)
    if kind == "matrix":
        return [path / name for name in read_matrix(path).runs]
    return [path] if kind == "run" else [path / name for name in _read_parent(path)[0]]


def default_run(path: Path) -> Path:
    """Return the run that `solve`, `serve` and `eval` take when they are given `path`.

    Raises:
        RunError: it is neither a run nor a parent (a matrix has no default), or the default run has not begun.
    """
    if require_kind(path, "run", "parent") == "run":
        return path
    children, default = _read_parent(path)
    run = path / default
    if folder_kind(run) != "run":
        begun = [str(path / name) for name in children if folder_kind(path / name) == "run"]
        others = f"; there is {', '.join(begun)}" if begun else ""
        raise RunError(f"{run}, the default run of {path}, has not begun: continue training with --resume{others}")
    return run


def require_empty(path: Path, *, is_of_run: bool = True) -> None:
    """Check that a new run may begin in `path`: absent, empty, or with nothing but an earlier start that was interrupted.

    A start writes the lock first and manifest.json last: with the lock and without the manifest, what is there is such a start.

    Raises:
        RunError: it is a file, cannot be read, or holds something.
    """
    if not path.exists() and not path.is_symlink():
        return
    with output_errors(path):
        names = sorted(entry.name for entry in path.iterdir())
    kind = folder_kind(path)
    ours = UNFINISHED if kind is None and LOCK_FILE in names else frozenset[str]()
    names = [name for name in names if name not in ours and not is_leftover(name)]
    if names:
        shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        remedy = "give another --out"
        if is_of_run and kind is not None:
            remedy = f"continue it with --resume, or {remedy}"
        raise RunError(f"output folder {path} is not empty ({shown}): {remedy}")


def _read_parent(path: Path) -> tuple[list[str], str]:
    content = read_json(path / PARENT)
    children, default = content.get("children"), content.get("default")
    if (
        not isinstance(children, list)
        or not children
        or not all(isinstance(name, str) and _is_plain(name) for name in children)
    ):
        raise RunError(f"{path / PARENT} names no children: restore it from a copy")
    if default not in children:
        raise RunError(f"{path / PARENT} names {default!r} as the default run, which is none of {', '.join(children)}")
    return list(children), str(default)


def _is_plain(name: str) -> bool:
    return bool(name) and Path(name).name == name and name not in (".", "..")
