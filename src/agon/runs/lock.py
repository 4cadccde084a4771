"""One writer for a run folder. The operating system gives the lock back when its owner dies, however it dies."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
from pathlib import Path
from typing import Any

from agon.errors import RunError
from agon.runs.atomic import output_errors

LOCK_FILE = "run.lock"

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL)
# A process may not open a file that it holds a POSIX lock on a second time: closing it would give the lock back.
_held: set[Path] = set()


class RunLock:
    """The right to write into a run folder, from construction to `release`.

    A POSIX record lock is used, not flock: a worker process that outlives a killed trainer does not inherit it.

    Raises:
        RunError: another live process holds it; names its pid and host.
    """

    def __init__(self, run: Path) -> None:
        self._path = run.resolve() / LOCK_FILE
        if self._path in _held:
            raise RunError(_in_use(run, {"pid": os.getpid(), "host": socket.gethostname()}))
        with output_errors(self._path):
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            self._take(run)
        except BaseException:
            os.close(self._descriptor)
            raise
        _held.add(self._path)

    def release(self) -> None:
        """Give the folder back. Releasing twice does nothing."""
        if self._path in _held and self._descriptor >= 0:
            _held.discard(self._path)
            os.close(self._descriptor)
            self._descriptor = -1

    def _take(self, run: Path) -> None:
        owner = _read_owner(self._descriptor)
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _NO_LOCKS or _is_alive(owner):
                raise RunError(_in_use(run, owner)) from None
        with output_errors(self._path):
            os.ftruncate(self._descriptor, 0)
            content = json.dumps({"pid": os.getpid(), "host": socket.gethostname()})
            os.pwrite(self._descriptor, content.encode(), 0)


def _read_owner(descriptor: int) -> dict[str, Any]:
    try:
        owner = json.loads(os.pread(descriptor, 4096, 0))
    except ValueError:
        return {}
    return owner if isinstance(owner, dict) else {}


def _is_alive(owner: dict[str, Any]) -> bool:
    """Whether the recorded owner may still run: asked only where the file system knows no locks."""
    pid = owner.get("pid")
    if not isinstance(pid, int) or pid == os.getpid():
        return False
    if owner.get("host") != socket.gethostname():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _in_use(run: Path, owner: dict[str, Any]) -> str:
    who = f"process {owner.get('pid', 'unknown')} on host {owner.get('host', 'unknown')}"
    return f"run folder {run} is in use by {who}: wait for it to end, or stop it"
