"""Files and folders that are either there whole or not there at all, also after a crash or a full disk."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from agon.errors import RunError
from agon.runs.reading import sealed

MARKER = "complete.json"
"""File written last into an atomic folder: size and sha256 of every other file, and what else its writer says of the whole."""

_TEMPORARY = ".agon-tmp-"
_REMEDIES = {
    errno.ENOSPC: "the disk is full: free some space, then try again (a training: with --resume)",
    errno.EDQUOT: "the disk quota is used up: free some space, then try again (a training: with --resume)",
    errno.EACCES: "permission denied: give a folder you may write to",
    errno.EPERM: "not permitted: give a folder you may write to",
    errno.EIO: "the disk failed to read or write: look after it, then try again (a training: with --resume)",
    errno.EFBIG: "no file may grow further here: raise the limit (ulimit -f), then try again (a training: with --resume)",
    errno.EROFS: "the file system is read-only: give a folder you may write to",
    errno.ENOTDIR: "a part of the path is a file: give another folder",
    errno.EEXIST: "a file of that name is in the way: give another folder",
    errno.EISDIR: "a folder of that name is in the way: give another file name",
    errno.ELOOP: "it is a link, and nothing is written through the links of a run folder: put the file itself there",
}
_UNREAD_REMEDIES = {
    errno.EACCES: "permission denied: allow reading it and the folder that holds it (chmod u+rX)",
    errno.EPERM: "not permitted: allow reading it",
    errno.EIO: "the disk failed to read it: look after the disk, then try again, or put a copy in its place",
    errno.EMFILE: "too many files are open: raise the limit (ulimit -n), then try again",
    errno.ENOTDIR: "a part of the path is a file: restore it from a copy",
    errno.EISDIR: "it is a folder: restore it from a copy",
}


@contextmanager
def output_errors(path: Path) -> Generator[None]:
    """Turn the operating system's refusal to write below `path` into one line for the user.

    Raises:
        RunError: names the path, what the system said, and the remedy.
    """
    try:
        yield
    except OSError as error:
        reason = _REMEDIES.get(error.errno or 0, f"{error.strerror or error}: give another place to write to")
        raise RunError(f"cannot write {path}: {reason}") from error


@contextmanager
def input_errors(path: Path) -> Generator[None]:
    """Turn the operating system's refusal to read `path`, or what lies below it, into one line for the user.

    Raises:
        RunError: names the file that was refused, what the system said, and the remedy.
    """
    try:
        yield
    except OSError as error:
        reason = _UNREAD_REMEDIES.get(error.errno or 0, f"{error.strerror or error}: look after it, then try again")
        raise RunError(f"{error.filename or path} cannot be read: {reason}") from error


@contextmanager
def atomic_file(path: Path) -> Generator[BinaryIO]:
    """Open a file for writing that takes its place under `path` only when the block ends well.

    Raises:
        RunError: the place cannot be written to. Nothing is left behind.
    """
    with output_errors(path):
        if path.exists() and not path.is_file() and not path.is_dir():
            # A device such as /dev/stdout: renaming a file over it would replace the device.
            with path.open("wb") as stream:
                yield stream
            return
        temporary = _temporary_beside(path)
        try:
            with temporary.open("xb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def atomic_write_bytes(path: Path, data: bytes) -> None:
    """Replace a file's content at once, surviving a crash with either the old or the new content.

    Raises:
        RunError: the place cannot be written to.
    """
    with atomic_file(path) as stream:
        stream.write(data)


def atomic_write_text(path: Path, text: str) -> None:
    """Replace a file's content at once with UTF-8 text, newlines as given.

    Raises:
        RunError: the place cannot be written to.
    """
    atomic_write_bytes(path, text.encode())


@contextmanager
def atomic_directory(path: Path, *, says: Mapping[str, Any] | None = None, has_marker: bool = True) -> Generator[Path]:
    """Give a temporary folder to fill, which takes its place under `path` only when the block ends well.

    Every file is flushed to the disk, the marker with sizes and hashes (and `says`, plain JSON values) is written last, then the
    folder is renamed. A folder that is already there is replaced. When the block raises, nothing is left behind. Without `has_marker`
    the folder is left as it was filled, for readers that know nothing of markers.

    Raises:
        RunError: the place cannot be written to.
    """
    with output_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _temporary_beside(path)
        temporary.mkdir()
        try:
            yield temporary
            _seal(temporary, says or {} if has_marker else None)
            _put_in_place(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync_folder(path.parent)


def file_hashes(folder: Path) -> dict[str, dict[str, str | int]]:
    """Return size and sha256 of every file below a folder but its marker, by relative path."""
    return {
        file.relative_to(folder).as_posix(): {"bytes": file.stat().st_size, "sha256": sha256_of(file)}
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file != folder / MARKER
    }


def sha256_of(file: Path) -> str:
    """Return the hex sha256 of a file's content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def remove_leftovers(folder: Path) -> None:
    """Remove what a killed process left half-written in a folder. Only the owner of the run may call it."""
    for entry in folder.glob(f".*{_TEMPORARY}*"):
        remove(entry)


def remove(path: Path) -> None:
    """Remove a file, a folder, or a link and not what it leads to. What cannot be removed of a folder stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def refuse_link_outside(folder: Path, *names: str) -> None:
    """Check that nothing which is written into these parts of a folder ends up elsewhere. The folder itself may be reached through links.

    Raises:
        RunError: one is a link that leads out of the folder.
    """
    for place in (folder / name for name in names):
        if place.is_symlink() and not place.resolve().is_relative_to(folder.resolve()):
            raise RunError(
                f"{place} is a link to {place.resolve()}, outside of the run folder, and would be written through: put the folder itself "
                "there, or let the whole run folder be a link"
            )


def open_to_append(path: Path) -> BinaryIO:
    """Open a file of a run folder for appending, unbuffered.

    Raises:
        OSError: it cannot be written to, or is a link.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    return open(descriptor, "ab", buffering=0)  # noqa: PTH123 - of a descriptor


def is_leftover(name: str) -> bool:
    """Whether a file name is that of something half-written."""
    return name.startswith(".") and _TEMPORARY in name


def sync_folder(folder: Path) -> None:
    """Flush a folder's list of names to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _temporary_beside(path: Path) -> Path:
    return path.with_name(f".{path.name}{_TEMPORARY}{secrets.token_hex(4)}")


def _seal(folder: Path, says: Mapping[str, Any] | None) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            with file.open("rb") as stream:
                os.fsync(stream.fileno())
    if says is not None:
        content = sealed({"format_version": 1, **says, "files": file_hashes(folder)})
        with (folder / MARKER).open("xb") as stream:
            stream.write(json.dumps(content, indent=1).encode())
            stream.flush()
            os.fsync(stream.fileno())
    for inner in (folder, *(entry for entry in folder.rglob("*") if entry.is_dir())):
        sync_folder(inner)


def _put_in_place(temporary: Path, path: Path) -> None:
    if not path.is_dir():
        temporary.rename(path)
        return
    replaced = _temporary_beside(path)
    path.rename(replaced)
    temporary.rename(path)
    remove(replaced)
