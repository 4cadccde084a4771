import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import agon
from agon.verifiers.sandbox import SandboxError, confine_this_process

SOURCE = str(Path(agon.__file__).resolve().parents[1])
PROGRAM = """
import json, os, sys
from agon.verifiers.sandbox import Limits, Sandbox, SandboxError, confine_this_process
sandbox = Sandbox(is_unsafe_allowed=False)
sandbox.start()
layers = confine_this_process(memory_mb=200, is_unsafe_allowed=False, left_out=sys.argv[2:])
tries = {
    "read": lambda: open("/etc/passwd").read(),
    "environment": lambda: open("/proc/self/environ").read(),
    "project": lambda: os.listdir(sys.argv[1]),
    "write": lambda: open("/tmp/agon-confined", "w"),
    "write beside Python": lambda: open(os.path.join(os.path.dirname(os.__file__), "agon_confined.py"), "w"),
    "fork": os.fork,
    "execute": lambda: os.execv(sys.executable, [sys.executable, "-c", "pass"]),
    "connect": lambda: __import__("socket").create_connection(("127.0.0.1", 9), 1),
    "kill": lambda: os.kill(os.getppid(), 0),
    "memory": lambda: bytearray(300 * 2**20),
}
came_through = []
for name, attempt in tries.items():
    try:
        attempt()
        came_through.append(name)
    except (OSError, MemoryError):
        pass
import tomllib, statistics  # still to be imported
limits = Limits(5.0, 64, 1)
run = sandbox.run("print(int(input()) * 2)", b"21", limits)
slow = sandbox.run("import time; time.sleep(9)", b"", limits._replace(timeout_s=0.2))
with sandbox.load("def f(x): return x + 1", limits) as session:
    called = session.call("f", [1]).value
sandbox.close()
try:
    sandbox.start()
    came_through.append("start")
except (SandboxError, OSError):
    pass
print(json.dumps([came_through, run.stdout.decode(), slow.ended, called, [layer.name for layer in layers if layer.is_in_force]]))
"""


@pytest.mark.parametrize("left_out", [[], ["namespaces"], ["landlock"]])
def test_a_confined_process_reaches_nothing_and_keeps_its_sandbox(tmp_path, left_out):
    (tmp_path / "secret").write_text("secret")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), *left_out]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", env={"PYTHONPATH": SOURCE})
    assert done.returncode == 0, done.stderr
    came_through, doubled, slow, called, in_force = json.loads(done.stdout)
    assert came_through == []
    assert (doubled, slow, called) == ("42\n", "time", 2)
    assert "resource limits" in in_force


def test_a_process_with_threads_is_not_confined_by_halves():
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        with pytest.raises(SandboxError, match="several threads"):
            confine_this_process(memory_mb=100, is_unsafe_allowed=True)
    finally:
        done.set()
        thread.join()
