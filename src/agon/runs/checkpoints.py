"""Which checkpoint of a run can be trusted: named by step, checked by the hashes in its marker."""

from __future__ import annotations

import errno
import re
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, cast

from agon.errors import RunError
from agon.runs.atomic import MARKER, input_errors, remove, sha256_of
from agon.runs.reading import parse_json, unsealed

PACKED_FROM = "packed_from"
"""Entry of a packed checkpoint's marker: the hash of the marker of the whole one, of which it holds all but the optimiser's moments."""
ROUNDED_TO = "rounded_to"
"""Entry of a packed checkpoint's marker: the number format that its adapters were rounded to. Absent where they are as they were saved."""

_FORMAT = 1
# Number formats that packing rounds to. What a marker names becomes a part of the names of results.
_ROUNDED = ("bfloat16",)
# What the system says of a file that is not there as it was written. Any other refusal says nothing of what is in it.
_OF_CONTENT = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG)
_NAME = re.compile(r"step-(\d{6,})")


class Skipped(NamedTuple):
    """A checkpoint that cannot be used, and why."""

    path: Path
    reason: str


class Newest(NamedTuple):
    """The newest whole checkpoint (None when there is none) and the damaged ones that were passed over, newest first."""

    path: Path | None
    skipped: list[Skipped]

    @property
    def damage(self) -> tuple[str, ...]:
        """One line for each damaged checkpoint."""
        return tuple(f"checkpoint {one.path.name} is damaged ({one.reason})" for one in self.skipped)

    @property
    def notes(self) -> tuple[str, ...]:
        """What whoever uses the adapters is to be told: each damaged checkpoint, and whether this one's adapters were rounded."""
        return self.damage + (() if self.path is None else rounding_notes(self.path))

    def remedy(self, run: Path) -> str:
        """Say for a run without a whole checkpoint what is the matter with those there are, and what to do."""
        if not self.skipped:
            return "none was saved yet: continue training with --resume"
        start = f"remove {run / 'checkpoints'} to train from the beginning with --resume"
        return f"{'; '.join(self.damage)}; restore one from a copy, or {start}"


class Recorded(NamedTuple):
    """How a file that grows with the run began when a checkpoint was saved."""

    num_bytes: int
    sha256: str


def checkpoint_name(step: int) -> str:
    """Return the folder name of the checkpoint after `step` steps: `step-000012`."""
    return f"step-{step:06d}"


def checkpoint_step(path: Path) -> int:
    """Return how many steps had been taken when a checkpoint was saved."""
    match = _NAME.fullmatch(path.name)
    assert match is not None, f"{path} is not named like a checkpoint"
    return int(match[1])


def is_last(path: Path, *, steps: int) -> bool:
    """Tell whether nothing is left to train after a checkpoint (only its marker is looked at).

    The checkpoint says so itself: a method that draws further problems ends before the last of its `steps`. One that was saved
    before checkpoints did is the last if it has them all.
    """
    marker = read_marker(path)
    said = marker.get("is_last")
    return said if isinstance(said, bool) else bool(marker) and checkpoint_step(path) >= steps


def recorded_lines(path: Path) -> dict[str, Recorded]:
    """Return how metrics and alarms began when a checkpoint was saved, by file name; nothing where it does not say."""
    try:
        said = read_marker(path)["lines"]
        return {str(name): Recorded(int(own["bytes"]), str(own["sha256"])) for name, own in said.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def checkpoint_identity(path: Path) -> dict[str, str]:
    """Return what tells a checkpoint's adapters from all others: its name, the hash of its list of files, and what they were rounded to.

    A packed one is that which it was packed from: what was measured of the one was measured of the other.
    """
    packed_from, rounded = read_marker(path).get(PACKED_FROM), rounded_to(path)
    sha256 = sha256_of(path / MARKER) if packed_from is None else str(packed_from)
    return {"checkpoint": path.name, "sha256": sha256, **({} if rounded is None else {ROUNDED_TO: rounded})}


def rounded_to(path: Path) -> str | None:
    """Return the number format that a checkpoint's adapters were rounded to when it was packed. None where they are as they were saved."""
    rounded = read_marker(path).get(ROUNDED_TO)
    return rounded if rounded in _ROUNDED else None


def rounding_notes(path: Path) -> tuple[str, ...]:
    """Say of a checkpoint whose adapters were rounded that they were."""
    rounded = rounded_to(path)
    return () if rounded is None else (f"the adapters of {path.name} were rounded to {rounded} when it was packed",)


def read_marker(path: Path) -> dict[str, Any]:
    """Return what a checkpoint's marker says; nothing where it cannot be read."""
    try:
        return unsealed(parse_json((path / MARKER).read_bytes()))
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def list_checkpoints(run: Path) -> list[Path]:
    """Return a run's checkpoint folders, damaged ones included, oldest first.

    Raises:
        RunError: the folder of checkpoints may not be looked into.
    """
    folder = run / "checkpoints"
    with input_errors(folder):
        if not folder.is_dir():
            return []
        found = [path for path in folder.iterdir() if path.is_dir() and _NAME.fullmatch(path.name)]
    return sorted(found, key=checkpoint_step)


def verify_checkpoint(path: Path) -> str | None:
    """Say why a checkpoint cannot be used, or return None when every file is there as it was written, and no other.

    Hidden files, which file managers and file systems leave behind, do not count.

    Raises:
        RunError: a file cannot be read for a reason that says nothing of its content, such as a missing right: that is no damage.
    """
    with input_errors(path):
        return _damage_of(path)


def _damage_of(path: Path) -> str | None:
    marker = path / MARKER
    try:
        content = unsealed(parse_json(marker.read_bytes()))
        version = content.get("format_version", _FORMAT)
        files = cast("dict[str, dict[str, Any]]", dict(content["files"]))
    except FileNotFoundError:
        return f"{MARKER} is missing: saving it was interrupted"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        _raise_refusal(error)
        return f"{MARKER} cannot be read ({error})"
    if version != _FORMAT:
        return f"{MARKER} has format version {version!r}, and this agon reads {_FORMAT}: use the agon that wrote it"
    rounded = content.get(ROUNDED_TO)
    if rounded is not None and rounded not in _ROUNDED:
        return f"{MARKER} says that the adapters were rounded to {rounded!r}, and this agon knows {', '.join(_ROUNDED)}"
    if not files:
        return f"{MARKER} names no files"
    for name, expected in files.items():
        reason = _verify_file(path / name, expected) if _is_below(name) else "leads out of the checkpoint"
        if reason is not None:
            return f"{name} {reason}"
    there = {file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()} - {MARKER}
    unnamed = sorted(name for name in there - files.keys() if not name.rpartition("/")[2].startswith("."))
    return f"{unnamed[0]} is not named in {MARKER}" if unnamed else None


def newest_checkpoint(run: Path) -> Newest:
    """Find the newest checkpoint of a run that is whole, and name the damaged ones that are newer.

    Raises:
        RunError: one that may be whole cannot be read.
    """
    skipped: list[Skipped] = []
    for path in reversed(list_checkpoints(run)):
        reason = verify_checkpoint(path)
        if reason is None:
            return Newest(path, skipped)
        skipped.append(Skipped(path, reason))
    return Newest(None, skipped)


def prune_checkpoints(run: Path, keep: int) -> list[Path]:
    """Remove all but the newest `keep` whole checkpoints, and damaged ones older than those; return what was removed.

    A checkpoint that is damaged or cannot be read never counts as kept, so that pruning cannot leave a run without one it can continue from.
    """
    assert keep >= 1, f"keep is {keep}, but the newest checkpoint must stay"
    removed: list[Path] = []
    kept = 0
    for path in reversed(list_checkpoints(run)):
        if kept >= keep:
            _remove(path)
            removed.append(path)
        elif _is_whole(path):
            kept += 1
    return removed


def _is_whole(path: Path) -> bool:
    try:
        return verify_checkpoint(path) is None
    except RunError:
        return False


def drop_checkpoints_after(run: Path, completed_steps: int) -> list[Path]:
    """Remove the checkpoints of later steps, which a run that goes on from an earlier one saves anew; return what was removed."""
    later = [path for path in list_checkpoints(run) if checkpoint_step(path) > completed_steps]
    for path in reversed(later):
        _remove(path)
    return later


def _remove(path: Path) -> None:
    # The marker goes first: a removal that is interrupted leaves a checkpoint that says so.
    if not path.is_symlink():
        (path / MARKER).unlink(missing_ok=True)
    remove(path)


def _is_below(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return bool(parts) and ".." not in parts and not PurePosixPath(name).is_absolute()


def _raise_refusal(error: Exception) -> None:
    if isinstance(error, OSError) and error.errno not in _OF_CONTENT:
        raise error


def _verify_file(file: Path, expected: dict[str, Any]) -> str | None:
    try:
        if file.exists() and not file.is_file():
            return "is no file"
        size = file.stat().st_size
        if size != expected["bytes"]:
            return f"has {size} bytes instead of {expected['bytes']}"
        if sha256_of(file) != expected["sha256"]:
            return "has another content than was written (its sha256 differs)"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        _raise_refusal(error)
        return f"cannot be read ({error.strerror})"
    except (KeyError, TypeError):
        return f"has no size or hash in {MARKER}"
    return None
