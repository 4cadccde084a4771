"""Is there room on the disk? Asked before a run begins, not found out in its middle."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from agon.errors import RunError


def require_writable(path: Path) -> None:
    """Check that a folder could be made at `path`, before hours are spent on what goes into it. Nothing is written.

    Raises:
        RunError: a part of the path is a file, or the nearest folder that exists may not be written to.
    """
    place = path.absolute()
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        raise RunError(f"cannot write {path}: {place} is a file: give another folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise RunError(f"cannot write {path}: permission denied in {place}: give a folder you may write to")


def free_disk_bytes(path: Path) -> int:
    """Return the bytes that may still be written to the disk which holds, or will hold, `path`."""
    place = path.absolute()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def require_free_bytes(path: Path, num_bytes: int, *, remedy: str = "free some space or write elsewhere") -> None:
    """Check that the disk which holds (or will hold) `path` has room.

    Raises:
        RunError: it has not; names what is free and what is needed, and the remedy.
    """
    free = free_disk_bytes(path)
    if free < num_bytes:
        raise RunError(
            f"{path} has {readable_size(free)} of free disk, but {readable_size(num_bytes)} are needed: {remedy}"
        )


def readable_size(num_bytes: int) -> str:
    """Return a number of bytes for people, in powers of 1,000 as disks are sold."""
    size = float(num_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
