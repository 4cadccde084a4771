"""A file system of its own: read-only views of the Python installation and of the system's libraries, and nothing else."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

from agon.verifiers.sandbox.linux import (
    CLONE_NEWNS,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    mount,
    restrict_mount,
    syscall,
    unmount,
    unshare,
)

# A rule of Landlock on a folder holds for what is mounted beneath it later, not for what is mounted on it: hence two levels.
SCRATCH_PARENT = "/scratch"
SCRATCH = "/scratch/tmp"
SCRATCH_MB = 16
_SYSTEM = ("/usr", "/lib", "/lib64", "/lib32", "/etc/ld.so.cache", "/etc/localtime")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_PLACES_TO_BUILD_IN = ("/tmp", "/mnt", "/media", "/srv", "/run", "/var/tmp", "/opt", "/home")
_ROOT_MB = 1


def python_paths() -> list[str]:
    """Return the folders that Python imports from: the standard library beside its shared libraries, and installed packages."""
    paths = sysconfig.get_paths()
    standard = Path(paths["stdlib"])
    folders = [str(standard.parent), str(standard), *(paths[name] for name in ("platstdlib", "purelib", "platlib"))]
    folders += [path for path in sys.path if path.startswith((sys.base_prefix + "/", sys.prefix + "/"))]
    return outermost(folder for folder in folders if Path(folder).exists())


def why_unreadable(paths: Sequence[str] = ()) -> str:
    """Name what Python needs (or the first of `paths`) that this process's user cannot read; "" if there is nothing.

    Only the user counts, not what a capability adds: the sandbox gives those up.
    """
    for path in map(os.path.realpath, paths or (sys.executable, sys.prefix, os.__file__, __file__)):
        for step in [*reversed(Path(path).parents), Path(path)]:
            if not os.access(step, os.R_OK if str(step) == path else os.X_OK):
                return f"this user cannot read {step}, and Python needs {path}: install Python and Agon where every user can read them"
    return ""


def readable_paths() -> list[str]:
    """Return all that a program can read where there is no private root."""
    return [*python_paths(), *_SYSTEM]


def device_paths() -> list[str]:
    """Return the devices that a program can use."""
    return list(_DEVICES)


def outermost(paths: Iterable[str]) -> list[str]:
    """Return the paths that lie in none of the others, without repetition."""
    kept: list[str] = []
    for path in sorted({os.path.normpath(path) for path in paths}):
        if not any(path == other or path.startswith(other.rstrip("/") + "/") for other in kept):
            kept.append(path)
    return kept


def enter_private_root(extra: Sequence[str] = ()) -> None:
    """Leave the machine's file system for a private one in a mount namespace of its own. Needs the right to mount.

    Raises:
        OSError: the system refuses.
    """
    views = outermost([*python_paths(), *_SYSTEM, *extra])
    unshare(CLONE_NEWNS)
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    base = _place_to_build_in(views)
    mount("tmpfs", base, kind="tmpfs", flags=MS_NOSUID | MS_NODEV, options=f"size={_ROOT_MB}m,mode=755")
    for path in views:
        _show(path, base)
    for path in _DEVICES:
        _show_file(path, base + path)
        restrict_mount(base + path, MS_NOSUID | MS_NOEXEC, is_recursive=False)
    Path(base + SCRATCH).mkdir(parents=True)
    if not Path(base + "/tmp").exists():
        Path(base + "/tmp").symlink_to(SCRATCH)
    os.chdir(base)
    restrict_mount(base, MS_RDONLY, is_recursive=False)
    _make_root()


def renew_scratch(owner: int) -> None:
    """Give the next program an empty folder for its files, in memory and limited. What was there is gone for good."""
    options = f"size={SCRATCH_MB}m,nr_inodes=512,mode=700,uid={owner},gid={owner}"
    mount("tmpfs", SCRATCH, kind="tmpfs", flags=MS_NOSUID | MS_NODEV | MS_NOEXEC, options=options)


def drop_scratch() -> None:
    """Take away the folder that `renew_scratch` made, with all that is in it."""
    unmount(SCRATCH)


def _place_to_build_in(views: Sequence[str]) -> str:
    for place in _PLACES_TO_BUILD_IN:
        hides_a_view = any(view == place or view.startswith(place + "/") for view in map(os.path.realpath, views))
        if not hides_a_view and Path(place).is_dir() and not Path(place).is_symlink():
            return place
    raise OSError(f"none of {', '.join(_PLACES_TO_BUILD_IN)} can be mounted over")


def _show(path: str, base: str) -> None:
    source = Path(path)
    if source.is_symlink() and path in _SYSTEM and source.is_dir():
        Path(base + path).symlink_to(source.readlink())
    elif source.is_dir():
        target = base + path
        Path(target).mkdir(parents=True, exist_ok=True)
        mount(os.path.realpath(path), target, flags=MS_BIND | MS_REC)
        restrict_mount(target, MS_RDONLY | MS_NOSUID | MS_NODEV, is_recursive=True)
    elif source.exists():
        _show_file(path, base + path)
        restrict_mount(base + path, MS_RDONLY | MS_NOSUID | MS_NODEV, is_recursive=False)


def _show_file(path: str, target: str) -> None:
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    Path(target).touch()
    mount(os.path.realpath(path), target, flags=MS_BIND)


def _make_root() -> None:
    # Both names are the folder itself: the old root lands on top of the new one, and is taken away from there.
    syscall("pivot_root", b".", b".")
    unmount(".")
    os.chdir("/")
