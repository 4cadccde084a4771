import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from agon.errors import RunError
from agon.runs.lock import LOCK_FILE, RunLock

HOLD = """
import os, sys, time
from pathlib import Path
from agon.runs.lock import RunLock
lock = RunLock(Path(sys.argv[1]))
if os.fork() == 0:  # a worker that outlives its trainer
    time.sleep(60)
print(os.getpid(), flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Start another process that holds the lock, in a session of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


def test_a_second_process_is_refused_and_told_who_holds_the_run(tmp_path, holder):
    with pytest.raises(RunError, match=f"in use by process {holder.pid} on host {socket.gethostname()}"):
        RunLock(tmp_path)


def test_the_lock_of_a_killed_process_is_free_although_its_worker_lives(tmp_path, holder):
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    os.killpg(holder.pid, 0)  # raises if the worker were gone too
    lock = RunLock(tmp_path)
    assert json.loads((tmp_path / LOCK_FILE).read_text())["pid"] == os.getpid()
    lock.release()


def test_one_process_cannot_hold_it_twice_and_releasing_frees_it(tmp_path):
    lock = RunLock(tmp_path)
    with pytest.raises(RunError, match=f"in use by process {os.getpid()}"):
        RunLock(tmp_path)
    lock.release()
    lock.release()
    RunLock(tmp_path).release()


def test_a_lock_file_that_is_a_link_is_not_written_through(tmp_path):
    (tmp_path / "precious").write_text("stays")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(RunError, match=r"run\.lock: it is a link"):
        RunLock(tmp_path / "run")
    assert (tmp_path / "precious").read_text() == "stays"


def test_a_run_folder_that_is_a_link_itself_is_locked_under_both_names(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    lock = RunLock(tmp_path / "link")
    with pytest.raises(RunError, match="is in use"):
        RunLock(tmp_path / "run")
    lock.release()


@pytest.mark.parametrize(
    ("owner", "is_free"),
    [
        ({"pid": 1, "host": "here"}, False),
        ({"pid": 1, "host": "elsewhere"}, False),
        ({"pid": 2**22 + 1, "host": "here"}, True),
        ({}, True),
    ],
)
def test_where_the_file_system_has_no_locks_the_recorded_owner_decides(tmp_path, monkeypatch, owner, is_free):
    def no_locks(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("agon.runs.lock.fcntl.lockf", no_locks)
    monkeypatch.setattr("agon.runs.lock.socket.gethostname", lambda: "here")
    (tmp_path / LOCK_FILE).write_text(json.dumps(owner))
    if is_free:
        RunLock(tmp_path).release()
    else:
        with pytest.raises(RunError, match="in use by process 1"):
            RunLock(tmp_path)
