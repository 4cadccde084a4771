import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

import pytest

import agon
from agon.verifiers.sandbox import Limits, Sandbox, SandboxError, private_root
from agon.verifiers.sandbox import sandbox as module

LIMITS = Limits(timeout_s=5.0, memory_mb=256, output_mb=8)
SOURCE = str(Path(agon.__file__).resolve().parents[1])


@pytest.fixture(scope="module", params=[(), ("namespaces",)], ids=["every layer", "no namespaces"])
def sandbox(request):
    made = Sandbox(is_unsafe_allowed=False, left_out=request.param)
    made.start()
    yield made
    made.close()


@pytest.fixture
def fresh():
    made = []

    def make(**options):
        made.append(Sandbox(**{"is_unsafe_allowed": False} | options))
        return made[-1]

    yield make
    for one in made:
        one.close()


READERS = {
    "input": "print(int(input()) + int(input()))",
    "read": "import sys; print(sum(map(int, sys.stdin.read().split())))",
    "lines": "import sys; print(sum(map(int, sys.stdin)))",
    "buffer": "import sys; print(int(sys.stdin.buffer.readline()) + int(sys.stdin.buffer.readline()))",
    "open(0)": "print(sum(map(int, open(0).read().split())))",
    "os.read": "import os; print(sum(map(int, os.read(0, 1000).split())))",
    "input, then the buffer": "import sys; one = sys.stdin.buffer.readline(); print(int(one) + int(input()))",
    "until the end": "a = []\ntry:\n    while True: a.append(int(input()))\nexcept EOFError: print(sum(a))",
}


@pytest.mark.parametrize("program", READERS.values(), ids=READERS)
@pytest.mark.parametrize(
    "stdin", [b"20\n22\n", b"20\n22", b"20\r\n22\r\n"], ids=["newlines", "no final newline", "CRLF"]
)
def test_a_program_reads_standard_input_as_it_likes(sandbox, program, stdin):
    run = sandbox.run(program, stdin, LIMITS)
    assert (run.ended, run.exit_code, run.stdout) == ("exit", 0, b"42\n"), run.stderr_tail


ENDS = {
    "": (0, b""),
    "print('a', end='')": (0, b"a"),
    "import sys; sys.exit(3)": (3, b""),
    "import sys; sys.exit('no')": (1, b""),
    "raise SystemExit": (0, b""),
    "print('a'); raise ValueError": (1, b"a\n"),
    "1 +": (1, b""),
    "import atexit; atexit.register(print, 'late'); print('early')": (0, b"early\nlate\n"),
    "import threading; threading.Timer(0.1, print, ['late']).start(); print('early')": (0, b"early\nlate\n"),
    "print(__file__)": (0, b"program.py\n"),
    "print(__name__)": (0, b"__main__\n"),
    "import sys; print(sys.argv)": (0, b"['program.py']\n"),
    "def f(n):\n    return n and f(n - 1)\nimport sys; sys.setrecursionlimit(10**6); print(f(20000))": (0, b"0\n"),
    "import os; os.write(1, bytes(range(256)))": (0, bytes(range(256))),
    "print('\\udcff')": (0, b"\xff\n"),
    "from dataclasses import dataclass\n@dataclass\nclass A:\n    a: int\nprint(A(1))": (0, b"A(a=1)\n"),
    "import threading; t = threading.Thread(target=print, args=('in',)); t.start(); t.join()": (0, b"in\n"),
}


@pytest.mark.parametrize("program", ENDS)
def test_a_program_ends_as_under_python(sandbox, program):
    run = sandbox.run(program, b"", LIMITS)
    assert run.ended == "exit"
    assert (run.exit_code, run.stdout) == ENDS[program], run.stderr_tail


def test_the_traceback_names_the_programs_own_lines_only(sandbox):
    run = sandbox.run("def f():\n    return 1 // 0\nf()\n", b"", LIMITS)
    lines = run.stderr_tail.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == '  File "program.py", line 3, in <module>'
    assert lines[-1].startswith("ZeroDivisionError")


def test_large_input_and_output_pass_whole(sandbox):
    data = b"0123456789abcdef" * (6 << 16)  # 6 MiB
    assert sandbox.run("import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())", data, LIMITS).stdout == data


def test_input_that_is_not_read_disturbs_nobody(sandbox):
    assert sandbox.run("print(42)", bytes(1 << 22), LIMITS).stdout == b"42\n"


def test_a_sleeping_program_ends_at_its_limit(sandbox):
    run = sandbox.run("import time; time.sleep(60)", b"", LIMITS._replace(timeout_s=0.3))
    assert run.ended == "time"
    assert 0.3 <= run.seconds < 10


def test_too_much_memory_is_told_from_other_failures(sandbox):
    run = sandbox.run("bytearray(2 * 1024 ** 3)", b"", LIMITS)
    assert (run.ended, run.stderr_tail) == ("memory", "MemoryError\n")


def test_the_limit_is_the_programs_own_memory(sandbox):
    program = "bytearray({} * 2 ** 20)"
    assert sandbox.run(program.format(200), b"", LIMITS).ended == "exit"
    assert sandbox.run(program.format(257), b"", LIMITS).ended == "memory"


def test_a_program_may_run_out_of_memory_and_still_be_right(sandbox):
    program = "try:\n    bytearray(2 * 1024 ** 3)\nexcept MemoryError:\n    print(42)"
    run = sandbox.run(program, b"", LIMITS)
    assert (run.ended, run.exit_code, run.stdout) == ("exit", 0, b"42\n")


def test_a_program_may_have_fifty_threads(sandbox):
    program = """
import threading
ready = threading.Barrier(51)
def work():
    kept = [str(number) for number in range(1000)]
    ready.wait()
for _ in range(50): threading.Thread(target=work).start()
ready.wait()
print(threading.active_count() > 0)
"""
    run = sandbox.run(program, b"", LIMITS._replace(memory_mb=1024))
    assert (run.ended, run.stdout) == ("exit", b"True\n"), run.stderr_tail


STACKS = ("(resource.RLIM_INFINITY, resource.RLIM_INFINITY)", "(2**29, resource.RLIM_INFINITY)", "[2**27, -1]")


@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_STACK)[1] != resource.RLIM_INFINITY,
    reason="a program cannot raise its stack further than this machine lets anybody",
)
@pytest.mark.parametrize("stack", STACKS)
def test_a_program_may_ask_for_a_larger_stack(sandbox, stack):
    program = (
        f"import resource, sys\nresource.setrlimit(resource.RLIMIT_STACK, {stack})\nsys.setrecursionlimit(10**6)\n"
    )
    program += "def f(n): return max([n, f(n - 1)], key=lambda x: x) if n else 0\nprint(f(20000))"
    run = sandbox.run(program, b"", LIMITS)
    assert (run.ended, run.stdout) == ("exit", b"20000\n"), run.stderr_tail


def test_endless_recursion_without_a_limit_ends_within_the_programs_memory(sandbox):
    program = (
        "import resource, sys\ntry: resource.setrlimit(resource.RLIMIT_STACK, (-1, -1))\nexcept ValueError: pass\n"
    )
    program += "sys.setrecursionlimit(10**9)\nclass A:\n    def __repr__(self): return repr(self)\nrepr(A())"
    assert sandbox.run(program, b"", LIMITS).ended in ("signal", "memory", "time")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_endless_output_costs_the_owner_no_memory(sandbox, stream):
    before = resident_mb()
    run = sandbox.run(f"import sys\nwhile True: sys.{stream}.write('x' * 10000)", b"", LIMITS)
    assert run.ended == "output"
    assert len(run.stdout) <= (8 << 20) + 65_536
    assert len(run.stderr_tail) <= 4096
    assert resident_mb() - before < 50


def resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def test_what_is_printed_before_a_limit_is_kept(sandbox):
    run = sandbox.run("print(42, flush=True)\nimport time; time.sleep(60)", b"", LIMITS._replace(timeout_s=0.3))
    assert (run.ended, run.stdout) == ("time", b"42\n")


def test_nothing_of_one_program_is_there_for_the_next(sandbox):
    sandbox.run(
        "import builtins, json, os, sys\nos.environ['X'] = 'x'\nbuiltins.len = json.dumps = None\nsys.path.clear()",
        b"",
        LIMITS,
    )
    run = sandbox.run("import os, json\nprint(json.dumps([len('ab'), os.environ.get('X')]))\nimport csv", b"", LIMITS)
    assert run.stdout == b"[2, null]\n"


def test_a_program_has_an_empty_folder_that_goes_with_it(fresh):
    sandbox = fresh()
    # /tmp is the same folder, unless Python itself is installed below it.
    other = "." if any(path.startswith("/tmp/") for path in private_root.python_paths()) else "/tmp"
    program = f"import os, tempfile\nprint(os.listdir('.'), os.listdir('{other}'))\n"
    program += f"open('a', 'w').close(); open('{other}/b', 'w').close()"
    program += "\nwith tempfile.TemporaryFile() as f: f.write(b'x')\nprint(sorted(os.listdir('.')))"
    for _ in range(2):
        assert sandbox.run(program, b"", LIMITS).stdout == b"[] []\n['a', 'b']\n"


def test_strings_hash_alike_in_every_program(sandbox):
    runs = {sandbox.run("print({str(n) for n in range(50)})", b"", LIMITS).stdout for _ in range(3)}
    assert len(runs) == 1


def test_a_program_finds_no_module_of_ours(sandbox):
    program = "import sys; print([name for name in sys.modules if name.startswith('agon')], sys.path)"
    run = sandbox.run(program, b"", LIMITS)
    assert run.stdout.startswith(b"[] ")
    assert SOURCE in sysconfig.get_paths().values() or SOURCE.encode() not in run.stdout


def test_a_limit_that_cannot_be_set_is_an_error_of_ours(fresh):
    with pytest.raises(SandboxError, match="failed"):
        fresh().run("print(42)", b"", LIMITS._replace(memory_mb=2**60))


def test_a_sandbox_whose_process_was_killed_starts_another(fresh):
    sandbox = fresh()
    sandbox.start()
    sandbox._process.kill()
    sandbox._process.wait()
    assert sandbox.run("print(42)", b"", LIMITS).stdout == b"42\n"


def test_a_sandbox_that_is_killed_while_a_program_runs_says_so(fresh):
    sandbox = fresh()
    sandbox.start()
    killer = threading.Timer(0.2, sandbox._process.kill)
    killer.start()
    with pytest.raises(SandboxError, match="the sandbox"):
        sandbox.run("import time; time.sleep(5)", b"", LIMITS._replace(timeout_s=10.0))
    killer.join()


def test_a_closed_sandbox_starts_again_when_asked(fresh):
    sandbox = fresh()
    for _ in range(2):
        assert sandbox.run("print(42)", b"", LIMITS).stdout == b"42\n"
        sandbox.close()


def test_too_few_layers_are_refused_in_one_line_and_allowed_on_demand(fresh):
    left_out = ("namespaces", "landlock")
    with pytest.raises(
        SandboxError, match=r"programs cannot be isolated here.*landlock.*--unsafe-code-execution"
    ) as caught:
        fresh(left_out=left_out).start()
    assert "\n" not in str(caught.value)
    assert fresh(is_unsafe_allowed=True, left_out=left_out).run("print(42)", b"", LIMITS).stdout == b"42\n"


def test_another_system_is_refused_even_on_demand(fresh, monkeypatch):
    monkeypatch.setattr(module, "is_supported", lambda: False)
    with pytest.raises(SandboxError, match="64-bit Linux"):
        fresh(is_unsafe_allowed=True).start()


def test_a_process_that_cannot_start_says_why(fresh, monkeypatch):
    monkeypatch.setattr(module, "_environment", lambda: {"PATH": os.defpath})
    monkeypatch.setattr(module.sys, "executable", shutil.which("false"))
    with pytest.raises(SandboxError, match="its process ended"):
        fresh().start()


def test_a_python_that_cannot_be_run_is_named(fresh, monkeypatch, tmp_path):
    monkeypatch.setattr(module.sys, "executable", str(tmp_path / "python"))
    with pytest.raises(SandboxError, match=r"could not be started: .*python.*every user can read"):
        fresh().start()


def test_good_programs_pass_beside_a_fork_bomb(fresh):
    bombed, good = fresh(), fresh()
    bombed.start(), good.start()
    bomb = "import os, threading\ndef go():\n    while True:\n        try: os.fork()\n        except OSError: pass\n"
    bomb += "for _ in range(1000):\n    try: threading.Thread(target=go).start()\n    except RuntimeError: pass\n"
    thread = threading.Thread(target=lambda: bombed.run(bomb, b"", LIMITS._replace(timeout_s=2.0)))
    thread.start()
    time.sleep(0.1)
    runs = [good.run("print(sum(range(int(input()))))", b"1000\n", LIMITS) for _ in range(8)]
    is_running = thread.is_alive()
    thread.join()
    assert is_running, "the bomb was over too early to prove anything"
    assert [run.stdout for run in runs] == [b"499500\n"] * 8


OWNER = """
import sys
from agon.verifiers.sandbox import Limits, Sandbox
sandbox = Sandbox(is_unsafe_allowed=False, left_out=sys.argv[1:])
sandbox.start()
print(sandbox._process.pid, flush=True)
sandbox.run("import time; time.sleep(600)", b"", Limits(600, 64, 1))
"""


@pytest.mark.parametrize("left_out", [[], ["namespaces"]])
def test_when_the_owner_is_killed_everything_under_it_dies(left_out):
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, *left_out], stdout=subprocess.PIPE, env={"PYTHONPATH": SOURCE}
    )
    zygote = int(owner.stdout.readline())
    wait_until(lambda: len(family(zygote)) == (4 if not left_out else 2))
    below = family(zygote)
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    wait_until(lambda: not any(is_running(pid) for pid in below))


def family(root):
    found = {root}
    for entry in sorted(
        (entry for entry in Path("/proc").iterdir() if entry.name.isdigit()), key=lambda entry: int(entry.name)
    ):
        try:
            if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) in found:
                found.add(int(entry.name))
        except OSError:
            continue
    return found


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(claim):
    deadline = time.monotonic() + 20
    while not claim():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


ORDINARY = """
import os, sys
from agon.verifiers.sandbox import Limits, Sandbox, is_isolated
sandbox = Sandbox(is_unsafe_allowed=False, left_out=sys.argv[1:])
run = sandbox.run("print(int(input()) * 2)", b"21", Limits(5, 64, 1))
assert run.stdout == b"42\\n", run
assert sandbox.run("while True: pass", b"", Limits(0.2, 64, 1)).ended == "time"
with sandbox.load("def f(x): return [x]", Limits(5, 64, 1)) as session:
    assert session.call("f", [1]).value == [1]
print(is_isolated(sandbox.layers), os.getuid())
sandbox.close()
"""


def ordinary_python():
    """A Python that nobody in particular can run, and the arguments to become nobody."""
    if os.getuid() != 0:
        return sys.executable, {}
    someone = {"user": 65534, "group": 65534, "extra_groups": []}
    for python in (sys.executable, shutil.which("python3", path="/usr/bin:/usr/local/bin")):
        check = [
            python,
            "-c",
            "import sys; sys.path.insert(0, sys.argv[1]); import agon; assert sys.version_info >= (3, 11)",
            SOURCE,
        ]
        try:
            if python and subprocess.run(check, capture_output=True, cwd="/", **someone).returncode == 0:
                return python, someone
        except OSError:
            continue
    return None, {}


@pytest.mark.parametrize("left_out", [[], ["namespaces"]])
def test_it_works_for_an_ordinary_user(left_out):
    python, someone = ordinary_python()
    if python is None:
        pytest.skip("no Python 3.11 that another user can run")
    command = [python, "-c", ORDINARY, *left_out]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", env={"PYTHONPATH": SOURCE}, **someone)
    assert done.stdout.startswith("True "), done.stderr
    assert done.stdout != "True 0\n"


# What containers and hardened machines take away, as far as it can be taken away here.
HARDENED = {
    "root of a user namespace": "unshare --user --map-root-user",
    "root of a user namespace that can have no other": "unshare --user --map-root-user sh -c 'echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"' -",
    "a process namespace whose /proc is another's": "unshare --pid --fork",
    "root without capabilities": "setpriv --bounding-set -all --inh-caps -all --securebits +noroot",
}


@pytest.mark.parametrize("wrapper", HARDENED.values(), ids=HARDENED)
def test_it_works_with_less_than_all_rights(wrapper):
    words = shlex.split(wrapper)
    if os.getuid() != 0 or subprocess.run([*words, "true"], capture_output=True).returncode != 0:
        pytest.skip("this cannot be set up here")
    command = [*words, sys.executable, "-c", ORDINARY]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd="/", env={"PYTHONPATH": SOURCE, "PATH": os.defpath}
    )
    assert done.stdout.startswith("True "), done.stderr
