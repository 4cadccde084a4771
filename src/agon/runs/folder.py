"""The run folder, as the one process that trains into it sees it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agon.errors import RunError
from agon.records import Match
from agon.runs.atomic import atomic_directory, output_errors, refuse_link_outside, remove_leftovers
from agon.runs.checkpoints import checkpoint_name, drop_checkpoints_after, prune_checkpoints
from agon.runs.lines import (
    ALARMS_FILE,
    METRICS_FILE,
    TIMINGS_FILE,
    append_line,
    check_metrics,
    record_lines,
    sync_file,
    truncate_alarms,
    truncate_metrics,
    truncate_timings,
)
from agon.runs.lock import RunLock
from agon.runs.manifest import CONFIG, DATA, FOLDERS, TENSORBOARD, read_manifest, write_json, write_manifest
from agon.runs.matches import write_matches
from agon.runs.parent import require_empty
from agon.runs.space import readable_size
from agon.secrecy import redact


class RunFolder:
    """Writes a run: metrics, timings, alarms, matches, checkpoints. Holds the folder's lock until `close`.

    Make one with `create` or `open`, and use it as a context manager. Reading needs no RunFolder: see `read_metrics`,
    `read_matches`, `read_evaluations`, `newest_checkpoint`.
    """

    def __init__(self, path: Path, lock: RunLock) -> None:
        self.path = path
        self._lock = lock
        self._max_matches_bytes: int | None = None
        self._say: Callable[[str], None] | None = None

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        settings: Mapping[str, Any],
        hashes: Mapping[str, str] | None = None,
        data: Mapping[str, Any] | None = None,
        machine: Mapping[str, str] | None = None,
    ) -> Self:
        """Begin a run in a new or empty folder. `settings` are the resolved settings, `data` the account of its task, as plain JSON types;
        `machine` is what results depend on besides.

        manifest.json is written last, so that a start that was interrupted is no run and may be begun again.

        Raises:
            RunError: the folder holds something, is in use, or cannot be written to.
        """
        require_empty(path)
        with output_errors(path):
            path.mkdir(parents=True, exist_ok=True)
        lock = RunLock(path)
        try:
            # Again, now that nobody else can begin: another process may have been here in the meantime.
            require_empty(path)
            refuse_link_outside(path, *FOLDERS, TENSORBOARD)
            with output_errors(path):
                remove_leftovers(path)
                for name in FOLDERS:
                    (path / name).mkdir(exist_ok=True)
            write_json(path / CONFIG, settings)
            if data is not None:
                write_json(path / DATA, data)
            write_manifest(path, hashes or {}, machine)
        except BaseException:
            lock.release()
            raise
        return cls(path, lock)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Continue a run, and clear away what a killed process left half-written.

        Raises:
            RunError: no run folder, one of another format version, one in use, or one that would be written through a link.
        """
        read_manifest(path)
        refuse_link_outside(path, *FOLDERS, TENSORBOARD)
        lock = RunLock(path)
        with output_errors(path):
            for folder in (path, *(path / name for name in FOLDERS)):
                folder.mkdir(exist_ok=True)
                remove_leftovers(folder)
        return cls(path, lock)

    def close(self) -> None:
        """Give the lock back."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def report_path(self) -> Path:
        """Where the run's own report goes."""
        return self.path / "report.html"

    def write_metrics(self, row: Mapping[str, Any]) -> None:
        """Append a step's line to metrics.jsonl.

        Raises:
            ValueError: a name that is not in agon.metrics.
            DivergedError: a number that is not finite.
            RunError: the disk is full or the file cannot be written.
        """
        check_metrics(row)
        append_line(self.path / METRICS_FILE, row)

    def write_timings(self, row: Mapping[str, Any]) -> None:
        """Append a step's wall-clock times to timings.jsonl."""
        append_line(self.path / TIMINGS_FILE, row)

    def write_alarm(self, alarm: Mapping[str, Any]) -> None:
        """Append an alarm to alarms.jsonl, with the step in which it sounded. Its message may be that of any library."""
        append_line(self.path / ALARMS_FILE, redact(alarm))

    def limit_matches(self, num_bytes: int, *, say: Callable[[str], None]) -> None:
        """Keep at most so many bytes of matches from here on, those that are there included; `say` is told once if there are more."""
        self._max_matches_bytes, self._say = num_bytes, say

    def write_matches(self, step: int, matches: Iterable[Match]) -> Path | None:
        """Save the matches of a step, and return their file; None where they would take more than is kept."""
        path = self.path / "matches" / f"{checkpoint_name(step)}.jsonl.gz"
        limit = self._max_matches_bytes
        left = None if limit is None else limit - sum(file.stat().st_size for file in match_files(self.path))
        if write_matches(path, matches, max_bytes=left):
            return path
        if self._say is not None and limit is not None:
            self._say(
                f"warning: the matches of step {step} are not kept, nor are later ones that do not fit: {self.path / 'matches'} would hold "
                f"more than {readable_size(limit)} (train.max_matches_gb)"
            )
            self._say = None
        return None

    @contextmanager
    def checkpoint(self, completed_steps: int, *, is_last: bool = False) -> Generator[Path]:
        """Give a temporary folder to save into; it becomes checkpoints/step-… whole, after metrics and alarms up to it are on the disk.

        `is_last` marks the run as finished: some methods use their rollouts up before the last planned step.

        Raises:
            RunError: the place cannot be written to. Nothing is left behind.
        """
        for name in (METRICS_FILE, ALARMS_FILE):
            sync_file(self.path / name)
        path = self.path / "checkpoints" / checkpoint_name(completed_steps)
        with atomic_directory(path, says={"is_last": is_last, "lines": record_lines(self.path)}) as folder:
            yield folder

    def prune_checkpoints(self, keep: int) -> list[Path]:
        """Remove all but the newest `keep` whole checkpoints; return what was removed."""
        return prune_checkpoints(self.path, keep)

    def rewind(self, completed_steps: int) -> None:
        """Drop metrics, timings, alarms, matches and checkpoints of later steps, so that the run continues as if it had not gone on.

        Raises:
            RunError: metrics.jsonl has fewer lines than steps were completed.
        """
        # First: a later checkpoint vouches for lines that are about to go.
        drop_checkpoints_after(self.path, completed_steps)
        truncate_metrics(self.path, completed_steps)
        truncate_timings(self.path, completed_steps)
        truncate_alarms(self.path, completed_steps)
        for path in match_files(self.path):
            # Steps count from 0: the first step after `completed_steps` of them has that number.
            if match_step(path) >= completed_steps:
                path.unlink()


def match_files(run: Path) -> list[Path]:
    """Return the files of matches saved while training, oldest step first."""
    return sorted((run / "matches").glob("step-*.jsonl.gz"), key=match_step)


def match_step(path: Path) -> int:
    """Return the step whose matches a file holds.

    Raises:
        RunError: the file is not named by a step.
    """
    number = path.name.removeprefix("step-").removesuffix(".jsonl.gz")
    if not number.isdigit():
        raise RunError(f"{path} is not named step-NNNNNN.jsonl.gz: remove it from the run folder")
    return int(number)
