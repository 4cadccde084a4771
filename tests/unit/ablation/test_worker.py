from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from agon.ablation.worker import wait_until_free
from agon.errors import RunError

HOLDER = """
import pathlib, sys, time
from agon.runs.lock import RunLock
lock = RunLock(pathlib.Path(sys.argv[1]))
print("held", flush=True)
time.sleep(float(sys.argv[2]))
"""


@pytest.fixture
def hold(tmp_path):
    """Return a function (seconds) that lets another process hold the lock of `tmp_path`."""
    processes = []

    def start(seconds):
        process = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path), str(seconds)], stdout=subprocess.PIPE)
        processes.append(process)
        assert process.stdout.readline() == b"held\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_a_folder_that_nobody_holds_is_free_at_once_and_stays_as_it_is(tmp_path):
    wait_until_free(tmp_path, say=print)
    assert list(tmp_path.iterdir()) == []


def test_one_waits_for_a_process_that_is_still_saving_and_says_so_once(tmp_path, hold):
    process, said = hold(0.7), []
    wait_until_free(tmp_path, say=said.append)
    assert process.wait(timeout=10) == 0
    assert len(said) == 1
    assert f"in use by process {process.pid}" in said[0]


def test_one_that_never_ends_is_named(tmp_path, hold):
    process = hold(60)
    started = time.monotonic()
    with pytest.raises(RunError, match=f"in use by process {process.pid}"):
        wait_until_free(tmp_path, say=lambda line: None, patience_s=0.3)
    assert time.monotonic() - started >= 0.3
    assert process.pid != os.getpid()
