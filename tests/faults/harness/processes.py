"""Processes of the command line: started, watched, ended, and looked for when they should be gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HARNESS = Path(__file__).parent
HOOK = HARNESS / "hook"
PATIENCE_S = 600.0
_POLL_S = 0.01
Fault = dict[str, Any]


def wait_until(claim: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    """Wait until a claim holds; fail with `what` if it does not."""
    deadline = time.monotonic() + patience_s
    while not claim():
        assert time.monotonic() < deadline, f"not within {patience_s:g} s: {what}"
        time.sleep(_POLL_S)


@dataclass
class Command:
    """One process of the command line. `place` holds what it printed, and how it ended; `cwd` marks it and all that it starts."""

    place: Path
    cwd: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self.process is not None:
            return self.process.pid
        wait_until((self.place / "pid").exists, "a process was forked")
        return int((self.place / "pid").read_text())

    @property
    def stdout(self) -> str:
        return (self.place / "stdout").read_text(errors="replace")

    @property
    def stderr(self) -> str:
        return (self.place / "stderr").read_text(errors="replace")

    @property
    def is_over(self) -> bool:
        return self.process.poll() is not None if self.process is not None else (self.place / "status").exists()

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, patience_s: float = PATIENCE_S) -> Ended:
        """Wait for its end, and return its exit code (minus the signal that ended it) with what it printed."""
        wait_until(lambda: self.is_over, f"the end of process {self.pid}; it said: {self.stderr!r}", patience_s)
        code = self.process.returncode if self.process is not None else int((self.place / "status").read_text())
        return Ended(code, self.stdout, self.stderr, self.cwd)


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    code: int
    stdout: str
    stderr: str
    cwd: Path

    @property
    def told(self) -> str:
        """Everything it printed."""
        return self.stdout + self.stderr

    @property
    def reason(self) -> str:
        """The one line that says why it failed.

        Raises:
            AssertionError: there is none, or more than that.
        """
        lines = [line for line in self.stderr.splitlines() if line.startswith("agon: ")]
        assert "Traceback" not in self.stderr, self.stderr
        assert lines, f"exit code {self.code} without a reason; it said {self.stderr!r}"
        assert self.stderr.splitlines()[-1] == lines[-1], f"the reason is not the last line: {self.stderr!r}"
        return lines[-1].removeprefix("agon: ")


@dataclass
class Starter:
    """Starts commands: forked from a process that has loaded everything, or as programs of their own (`is_cold`).

    `wrapper` stands before the command of that process, such as to give it a disk of its own.
    """

    root: Path
    wrapper: Sequence[str] = ()
    _warm: subprocess.Popen[str] | None = field(default=None, init=False)

    def start(
        self,
        *arguments: object,
        cwd: Path,
        faults: Sequence[Fault] = (),
        environment: dict[str, str] | None = None,
        path: Sequence[Path] = (),
        ignored: Sequence[int] = (),
        is_cold: bool = False,
        terminal: int | None = None,
    ) -> Command:
        """Start `agon ARGUMENTS`. `ignored` are signals that it is started to ignore, `path` folders of modules before all others.

        A cold one may be given a `terminal` that takes what it says.
        """
        place = Path(tempfile.mkdtemp(dir=self.root))
        cwd.mkdir(parents=True, exist_ok=True)
        words = [str(argument) for argument in arguments]
        added = {name: str(value) for name, value in (environment or {}).items()}
        for name in ("stdout", "stderr"):
            (place / name).touch()
        if is_cold:
            return self._start_cold(words, place, cwd, faults=[*faults], added=added, path=path, terminal=terminal)
        request = {
            "place": str(place),
            "cwd": str(cwd),
            "arguments": words,
            "faults": [*faults],
            "environment": added,
            "path": [str(folder) for folder in path],
            "ignored": [*ignored],
        }
        warm = self._open()
        assert warm.stdin is not None, "it was started with pipes"
        warm.stdin.write(json.dumps(request) + "\n")
        warm.stdin.flush()
        return Command(place, cwd)

    def run(self, *arguments: object, cwd: Path, **options: Any) -> Ended:
        """Run `agon ARGUMENTS` to its end."""
        return self.start(*arguments, cwd=cwd, **options).wait()

    @property
    def pid(self) -> int:
        """The process that commands are forked from."""
        return self._open().pid

    def close(self) -> None:
        """End the process that others are forked from."""
        if self._warm is not None:
            self._warm.kill()
            self._warm.communicate()

    def _open(self) -> subprocess.Popen[str]:
        if self._warm is None:
            self._warm = subprocess.Popen(
                [*self.wrapper, sys.executable, str(HARNESS / "warm.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=self.root,
                env=_environment(),
                start_new_session=True,
            )
            assert self._warm.stdout is not None, "it was started with pipes"
            assert self._warm.stdout.readline() == "ready\n", "the process to fork from did not load"
        return self._warm

    def _start_cold(
        self,
        words: list[str],
        place: Path,
        cwd: Path,
        *,
        faults: list[Fault],
        added: dict[str, str],
        path: Sequence[Path],
        terminal: int | None,
    ) -> Command:
        environment = _environment(*path) | {"AGON_FAULT": json.dumps(faults)} | added
        with (place / "stdout").open("wb") as out, (place / "stderr").open("wb") as err:
            process = subprocess.Popen(
                [sys.executable, "-m", "agon.cli.main", *words],
                stdin=subprocess.DEVNULL,
                stdout=out if terminal is None else terminal,
                stderr=err if terminal is None else terminal,
                cwd=cwd,
                env=environment,
                start_new_session=True,
            )
        return Command(place, cwd, process)


def _environment(*path: Path) -> dict[str, str]:
    """The tests' own, with the module of faults, and the source of agon where a process has another working folder."""
    import agon

    source = Path(agon.__file__).resolve().parents[1]
    folders = [*path, HOOK, source, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "passive",
        "HF_HUB_OFFLINE": "1",
    }


def processes_in(folder: Path) -> dict[int, str]:
    """Return the processes that work in a folder or below it, or name it in their command line, with that line."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            cwd = (entry / "cwd").readlink()
        except OSError:
            continue
        # A zombie has no command line, and does nothing any more.
        if line and (cwd.is_relative_to(folder) or str(folder) in line):
            found[int(entry.name)] = line.strip()
    return found


def require_no_orphans(folder: Path, patience_s: float = 120.0) -> None:
    """Check that whatever was started in a folder ends by itself."""
    deadline = time.monotonic() + patience_s
    while left := processes_in(folder):
        if time.monotonic() > deadline:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            raise AssertionError(f"processes that nobody waits for: {left}")
        time.sleep(_POLL_S)
