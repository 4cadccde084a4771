"""What a run folder is and what wrote it: manifest.json, and the check every reader makes first."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import agon
from agon.errors import RunError
from agon.runs.atomic import atomic_write_bytes, input_errors
from agon.runs.reading import parse_json, sealed, unsealed
from agon.secrecy import redact

FORMAT_VERSION = 1
"""Version of the formats of runs, parents and matrices. What to do when it changes: tests/data/formats/README.md."""
OLDEST_VERSION = 1
"""Oldest version that is still read."""
MANIFEST = "manifest.json"
CONFIG = "config.json"
DATA = "data.json"
PARENT = "parent.json"
MATRIX = "matrix.json"
FOLDERS = ("matches", "checkpoints", "evaluations")
TENSORBOARD = "tensorboard"
"""Folder of the curves for TensorBoard, where that is asked for."""

_PACKAGES = ("torch", "transformers", "peft", "safetensors", "numpy", "math-verify", "vllm")


def installed_versions() -> dict[str, str]:
    """Return the versions of agon, Python and the packages results depend on, without importing them."""
    versions = {"agon": agon.__version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def write_manifest(run: Path, hashes: Mapping[str, str], machine: Mapping[str, str] | None = None) -> None:
    """Write manifest.json: format version, versions, and as given what tells the machine, the base and the data from others."""
    manifest = {
        "format": "agon run",
        "format_version": FORMAT_VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "platform": platform.platform(),
        "machine": dict(machine or {}),
        "versions": installed_versions(),
        "hashes": dict(hashes),
    }
    write_json(run / MANIFEST, manifest)


def read_manifest(run: Path) -> dict[str, Any]:
    """Return a run folder's manifest.

    Raises:
        RunError: no run folder, a damaged manifest, or a folder of another format version.
    """
    require_kind(run, "run")
    return _checked(run, MANIFEST)


def read_config(run: Path) -> dict[str, Any]:
    """Return a run folder's resolved settings, one table a class (secrets redacted).

    Raises:
        RunError: no run folder, or config.json is missing or damaged.
    """
    read_manifest(run)
    return read_json(run / CONFIG)


def changes_since(run: Path, machine: Mapping[str, str] | None = None) -> list[str]:
    """Return what has changed since the run began, in lines such as `torch 2.11.0 -> 2.13.0`: versions, and the machine if given.

    A run from before its machine was written down says nothing of that.
    """
    manifest = read_manifest(run)
    pairs = [(manifest.get("versions", {}), installed_versions())]
    known = manifest.get("machine")
    if machine is not None and isinstance(known, dict) and known:
        pairs.append((known, dict(machine)))
    return [
        f"{name} {before.get(name, 'absent')} -> {now.get(name, 'absent')}"
        for before, now in pairs
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]


Kind = Literal["run", "parent", "matrix"]
_MAX_NAMES = 4
_FILE_OF: Mapping[Kind, str] = {"run": MANIFEST, "parent": PARENT, "matrix": MATRIX}
_FORMAT_OF = {name: f"agon {kind}" for kind, name in _FILE_OF.items()}


def folder_kind(path: Path) -> Kind | None:
    """Say whether a folder is a run, a parent of a few runs, a matrix of runs, or none of them (None).

    Raises:
        RunError: it may not be looked into.
    """
    with input_errors(path):
        return next((kind for kind, name in _FILE_OF.items() if (path / name).is_file()), None)


def require_kind(path: Path, *kinds: Kind) -> Kind:
    """Return the kind of a folder that must be one of `kinds`.

    Raises:
        RunError: it is missing, or something else; says what would be right.
    """
    kind = folder_kind(path)
    if kind is None:
        if not path.exists():
            raise RunError(f"run folder {path} does not exist: give the --out folder of an `agon train`")
        raise RunError(f"{path} is not a run folder (it has no {MANIFEST}): give the --out folder of an `agon train`")
    content = _checked(path, _FILE_OF[kind])
    if kind not in kinds:
        if kind == "run":
            raise RunError(f"{path} is a single run, but a folder of several runs is needed")
        raise RunError(f"{path} holds several runs ({_names(content)}): give one of them")
    return kind


def _names(content: Mapping[str, Any]) -> str:
    """Name the runs in a folder of several: the children of a parent, or the cells of a matrix; the first few of many."""
    listed = content.get("children", content.get("cells"))
    listed = listed if isinstance(listed, list) else []
    names = [str(item.get("run") if isinstance(item, dict) else item) for item in listed]
    return ", ".join(names[:_MAX_NAMES]) + (f", … {len(names)} in all" if len(names) > _MAX_NAMES else "")


def _checked(path: Path, name: str) -> dict[str, Any]:
    content = read_json(path / name)
    kind, expected = content.get("format"), _FORMAT_OF[name]
    if kind is not None and kind != expected:
        raise RunError(f"{path / name} says that it is {kind!r} and not {expected!r}: restore it from a copy")
    _check_version(path, content)
    for table in ("versions", "hashes"):
        if not isinstance(content.get(table, {}), dict):
            raise RunError(f"{path / name} holds no table {table!r}: restore it from a copy, or train again")
    return content


def _check_version(path: Path, content: Mapping[str, Any]) -> None:
    version = content.get("format_version")
    if type(version) is not int:
        raise RunError(f"run folder {path} names no format version ({version!r}): restore it from a copy")
    if OLDEST_VERSION <= version <= FORMAT_VERSION:
        return
    versions = content.get("versions")
    writer = versions.get("agon") if isinstance(versions, dict) else None
    has, reads = f"run folder {path} has format version {version}", f"agon {agon.__version__} reads"
    if version > FORMAT_VERSION:
        to = f" to {writer} or newer" if writer else ""
        raise RunError(f"{has}, and {reads} no newer one than {FORMAT_VERSION}: upgrade agon{to}")
    raise RunError(
        f"{has}, and {reads} none before {OLDEST_VERSION}: use agon {writer or 'of the version that wrote it'}, or train again into "
        "another folder"
    )


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file of a run folder.

    Raises:
        RunError: the file is missing, damaged, or cannot be read.
    """
    try:
        content = parse_json(_content_of(path))
    except ValueError as error:
        raise RunError(f"{path} is not valid JSON ({error}): restore it from a copy, or train again") from None
    if not isinstance(content, dict):
        raise RunError(f"{path} holds a {type(content).__name__} where an object is needed: restore it from a copy")
    try:
        return unsealed(content)
    except ValueError as error:
        raise RunError(f"{path} is damaged ({error}): restore it from a copy, or make it again") from None


def _content_of(path: Path) -> bytes:
    with input_errors(path):
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise RunError(f"{path} is missing: the run folder is incomplete") from None


def write_json(path: Path, content: Mapping[str, Any], *, is_sealed: bool = True) -> None:
    """Write an object as indented JSON without secrets, whole or not at all; with its checksum, unless it is for others to read.

    Raises:
        RunError: the place cannot be written to.
    """
    own = redact(content)
    text = json.dumps(sealed(own) if is_sealed else own, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    # Half of a surrogate pair can stand in JSON, but not in strict UTF-8.
    atomic_write_bytes(path, text.encode(errors="surrogatepass"))
