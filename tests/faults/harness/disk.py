"""A disk of its own for the processes of a starter: small, so that it can be filled, and remounted read-only."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

from harness.processes import Starter

_MOUNT = 'mount -t tmpfs -o size=12m none "$0" && exec "$@"'
_PAGE = 4096


def can_mount() -> bool:
    """Whether a process may have a mount of its own here."""
    try:
        probe = subprocess.run(
            ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/tmp"], capture_output=True, check=False
        )
    except FileNotFoundError:
        return False
    return probe.returncode == 0


class SmallDisk:
    """A tmpfs of 12 MB that only the processes of `starter` see. `inside` is their path to it, `outside` that of everybody else."""

    def __init__(self, root: Path) -> None:
        self.inside = root / "disk"
        self.inside.mkdir()
        self.starter = Starter(root, wrapper=("unshare", "-rm", "sh", "-c", _MOUNT, str(self.inside)))
        self.outside = Path(f"/proc/{self.starter.pid}/root{self.inside}")

    def fill(self) -> None:
        """Leave not one free page."""
        # One that was rounded up to is found by the smaller pieces.
        with (self.outside / "ballast").open("ab", buffering=0) as ballast, suppress(OSError):
            while True:
                ballast.write(bytes(_PAGE))
        assert shutil.disk_usage(self.outside).free == 0, "the disk is full"

    def free(self) -> None:
        """Give the space back."""
        (self.outside / "ballast").unlink()

    def remount(self, option: str) -> None:
        """Make it read-only ("ro"), or writable again ("rw")."""
        words = ["nsenter", "-t", str(self.starter.pid), "-U", "-m", "--", "mount", "-o", f"remount,{option}"]
        subprocess.run([*words, str(self.inside)], check=True)

    def clear(self) -> None:
        """Remove everything on it."""
        for entry in self.outside.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
