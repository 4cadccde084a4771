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


def require_free_bytes(path: Path, num_bytes: int) -> None:
    """Check that the disk which holds (or will hold) `path` has room.

    Raises:
        RunError: it has not; names what is free and what is needed.
    """
    place = path.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < num_bytes:
        raise RunError(
            f"{path} has {_readable(free)} of free disk, but {_readable(num_bytes)} are needed: free some space or write elsewhere"
        )


def _readable(num_bytes: int) -> str:
    size = float(num_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
