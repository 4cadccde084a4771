"""The process that programs are forked from: it enters the namespaces once, imports what programs import, and waits.

It is started afresh with a bare environment, and is given the limits and the open pipes of each program, never its text: that is
read by the forked process alone. It never sees a test, an expected value, or what a program writes.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from agon.verifiers.sandbox import layers, private_root, program
from agon.verifiers.sandbox.confinement import Bars, Resources, confine, limit_resources
from agon.verifiers.sandbox.linux import (
    CLONE_NEWIPC,
    CLONE_NEWPID,
    bar_capabilities,
    die_with_parent,
    forbid_dumps,
    forbid_new_privileges,
    forget_keys,
    install_filter,
    setns,
    unshare,
)
from agon.verifiers.sandbox.seccomp import build_filter

# What small programs import: paid for once, not by each.
_PRELOADED = (
    "abc array bisect cmath collections collections.abc contextlib copy dataclasses datetime decimal enum fractions functools "
    "hashlib heapq io itertools json math numbers operator queue random re statistics string struct sys textwrap threading time "
    "traceback typing linecache encodings.idna unicodedata"
)
_NUM_FILES = 5
# Out of the way of the files that a program is given.
_FIRST_SPARE_FILE, _RULESET_FILE = 32, 60


class _Zygote:
    """The loop: one program at a time, each in a namespace of processes of its own, with an empty folder of its own."""

    def __init__(self, control: socket.socket, left_out: list[str]) -> None:
        self._control = control
        forget_keys()
        self._base_address_space = layers.address_space()
        self._entered = entered = layers.enter(left_out)
        self._pid = os.getpid()
        self._has_files = layers.has(entered, "file system namespace")
        tried = entered.layers
        ruleset = layers.try_landlock(tried, left_out, has_private_root=self._has_files)
        if ruleset >= 0:
            ruleset = os.dup2(ruleset, _RULESET_FILE, inheritable=False)
        layers.try_in_child(tried, "seccomp", left_out, _try_filter)
        layers.try_in_child(tried, "resource limits", left_out, lambda: limit_resources(self._resources(64, 2)))
        self._bars = Bars(entered.program_id, ruleset, layers.has(entered, "seccomp"), self._has_files)
        if entered.pid_namespace >= 0:
            build_filter(1, may_change_files=self._has_files)  # the same for all: built once, before they are forked
        forbid_dumps()
        bar_capabilities()

    def serve(self) -> None:
        self._say({"layers": self._entered.layers})
        while True:
            message, files, _, _ = socket.recv_fds(self._control, 4096, _NUM_FILES)
            if not message:
                return
            if files:
                self._run(json.loads(message), files)

    def _run(self, job: dict[str, Any], files: list[int]) -> None:
        if self._has_files:
            private_root.renew_scratch(os.getuid() if self._bars.program_id is None else self._bars.program_id)
        has_namespace = self._entered.pid_namespace >= 0
        first = self._enter_processes() if has_namespace else None
        try:
            pid, failure = self._fork(job, files)
        finally:
            for file in files:
                os.close(file)
        if has_namespace:
            setns(self._entered.pid_namespace, CLONE_NEWPID)
        watched = os.pidfd_open(pid)
        try:
            if failure:
                self._say({"failed": failure})
                os.kill(pid, signal.SIGKILL)
            else:
                self._introduce(watched)
                self._watch(pid, watched)
        finally:
            os.close(watched)
        _, status, usage = os.wait4(pid, 0)
        if first is not None:
            os.kill(first, signal.SIGKILL)
            os.waitpid(first, 0)
        if self._has_files:
            private_root.drop_scratch()
        self._say({"exit": os.waitstatus_to_exitcode(status), "cpu_s": usage.ru_utime + usage.ru_stime})

    def _enter_processes(self) -> int:
        """Let the next process start in a new namespace of processes, and return the number of its first one: all end with that.

        The kernel spares the first process most signals, those that it sends itself too, so that no program may be it.
        """
        unshare(CLONE_NEWPID)
        pid = os.fork()
        if pid == 0:
            die_with_parent()
            os.closerange(0, 4096)
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that none stays a zombie
            while True:
                signal.pause()
        return pid

    def _fork(self, job: dict[str, Any], files: list[int]) -> tuple[int, str]:
        started, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._become_program(job, files, tell)
        os.close(tell)
        # Closed without a word once the process is confined: from then on its time counts.
        failure = os.read(started, 4096).decode()
        os.close(started)
        return pid, failure

    def _become_program(self, job: dict[str, Any], files: list[int], tell: int) -> NoReturn:
        try:
            _take_files([*files, tell])
            os.chdir(private_root.SCRATCH if self._has_files else "/")
            if layers.has(self._entered, "ipc namespace") and not self._bars.is_filtered:
                unshare(CLONE_NEWIPC)  # so that no shared memory stays for the next program
            limit_resources(self._resources(job["memory_mb"], job["cpu_s"]))
            confine(self._bars)
            if self._entered.pid_namespace < 0 and os.getppid() != self._pid:
                os._exit(1)  # the parent was gone before its end could be watched
            os.closerange(_NUM_FILES + 1, 4096)
            os.close(_NUM_FILES)
        except BaseException as error:
            with suppress(OSError):
                os.write(_NUM_FILES, f"{type(error).__name__}: {error}"[:500].encode())
            os._exit(1)
        program.main(is_run=job["is_run"], max_reply_bytes=job["max_reply_bytes"])

    def _resources(self, memory_mb: int, cpu_seconds: int) -> Resources:
        is_filtered = layers.has(self._entered, "seccomp")
        return Resources(
            self._base_address_space + memory_mb * 2**20, cpu_seconds, self._entered.has_own_ids, is_filtered
        )

    def _introduce(self, watched: int) -> None:
        """Hand over what the owner needs to watch the process: a file that tells its end, and where there are, its statistics."""
        files = [watched]
        with suppress(OSError, ValueError, StopIteration):
            lines = _read_at(self._entered.proc, f"self/fdinfo/{watched}").splitlines()
            number = int(next(line for line in lines if line.startswith("Pid:")).split()[1])
            for name in ("schedstat", "stat"):
                files.append(os.open(f"{number}/{name}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._entered.proc))
        socket.send_fds(self._control, [b'{"started": true}'], files)
        for file in files[1:]:
            os.close(file)

    def _watch(self, pid: int, watched: int) -> None:
        poll = select.poll()
        poll.register(watched, select.POLLIN)
        poll.register(self._control, select.POLLIN)
        while True:
            ready = {file for file, _ in poll.poll()}
            if watched in ready:
                return
            # Anything said meanwhile means: end it. So does the owner's end.
            is_gone = not self._control.recv(4096)
            os.kill(pid, signal.SIGKILL)
            if is_gone:
                os.waitpid(pid, 0)
                os._exit(0)

    def _say(self, message: dict[str, Any]) -> None:
        self._control.send(json.dumps(message).encode())


def main() -> None:
    """Serve until the owner is gone. Arguments: the number of the control socket, the layers to leave out, separated by commas."""
    control = socket.socket(fileno=int(sys.argv[1]))
    left_out = [name for name in sys.argv[2].split(",") if name]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        die_with_parent()
        for name in _PRELOADED.split():
            importlib.import_module(name)
        zygote = _Zygote(control, left_out)
        _forget_own_modules()
        gc.collect()
        gc.freeze()
        zygote.serve()
    except (BrokenPipeError, ConnectionResetError):
        return
    except Exception as error:
        control.send(json.dumps({"failed": f"{type(error).__name__}: {error}"}).encode())


def _forget_own_modules() -> None:
    """Leave a program the environment, the path and the modules of a fresh interpreter."""
    own_root = str(Path(__file__).resolve().parents[3])
    sys.path[:] = [path for path in sys.path if path != own_root or path in private_root.python_paths()]
    for name in [name for name in sys.modules if name.partition(".")[0] == "agon"]:
        del sys.modules[name]
    os.environ.clear()
    os.environ.update(
        HOME=private_root.SCRATCH, TMPDIR=private_root.SCRATCH, PATH="/usr/bin", LANG="C.UTF-8", OMP_NUM_THREADS="1"
    )
    sys.argv[:] = ["program.py"]


def _take_files(files: list[int]) -> None:
    spare = [os.dup2(file, _FIRST_SPARE_FILE + index) for index, file in enumerate(files)]
    for index, file in enumerate(spare):
        os.dup2(file, index)


def _try_filter() -> None:
    forbid_new_privileges()
    install_filter(build_filter(os.getpid(), may_change_files=True))


def _read_at(folder: int, path: str) -> str:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.read(file, 4096).decode()
    finally:
        os.close(file)


if __name__ == "__main__":
    main()
