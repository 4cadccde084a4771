from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import agon

SOURCE = str(Path(agon.__file__).resolve().parents[1])
OWNER = """
import sys
from agon.program_tests import CodeTests, to_details
from agon.verifiers.pool import WorkerPool, module_command
pool = WorkerPool(module_command("agon.verifiers.code_worker", 300, 256, 1, 1024, "isolated"), timeout_s=600, workers=1)
jobs = {
    "program": "import time\\ndef f(): time.sleep(600)",
    "tests": "import time\\ntime.sleep(600)\\nassert f() == 1",
}
program = jobs["program"] if sys.argv[1] == "program" else "def f(): return 1"
test = jobs["tests"] if sys.argv[1] == "tests" else "assert f() == 1"
pool.ask([{"program": program, "tests": to_details(CodeTests((test,), ("f",)))}])
"""


def parents():
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                found[int(entry.name)] = int(fields[1])
    return found


def below(root):
    found, added = {root}, True
    while added:
        added = {pid for pid, parent in parents().items() if parent in found} - found
        found |= added
    return found - {root}


def wait_until(claim):
    deadline = time.monotonic() + 60
    while not claim():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="programs run only on Linux")
@pytest.mark.parametrize("what_hangs", ["program", "tests"])
def test_when_its_owner_is_killed_nothing_goes_on(what_hangs):
    owner = subprocess.Popen([sys.executable, "-c", OWNER, what_hangs], env={"PYTHONPATH": SOURCE, "PATH": os.defpath})
    try:
        # The judge, the test process, the sandbox and the program; two more with a namespace of processes.
        wait_until(lambda: len(below(owner.pid)) >= 4)
        time.sleep(0.5)  # until the program or the tests sleep
        family = below(owner.pid)
    finally:
        os.kill(owner.pid, signal.SIGKILL)
        owner.wait()
    wait_until(lambda: not family & parents().keys())
