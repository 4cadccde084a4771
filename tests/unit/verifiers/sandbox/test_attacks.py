"""Programs that try to pass without solving, to hang, to break out or to leave something behind. See the two tables."""

import os
import time
import tomllib
from pathlib import Path

import pytest

from agon.verifiers.sandbox import Limits, ProgramFailed, Sandbox

HERE = Path(__file__).parent
SCRIPTS = tomllib.loads((HERE / "attacks_on_scripts.toml").read_text())["attack"]
FUNCTIONS = tomllib.loads((HERE / "attacks_on_functions.toml").read_text())["attack"]
# What a virtual machine is not given counts as computing: a quarter of a second was too short for a program that is refused at once.
LIMITS = Limits(timeout_s=0.5, memory_mb=128, output_mb=1)
LAYERS = {"every layer": (), "no namespaces": ("namespaces",), "namespaces alone": ("seccomp", "landlock")}
# What namespaces alone do not refuse, they contain: such programs may also end in these ways, and still leave nothing.
CONTAINED = {"nothing", "exit", "time", "signal", "memory", "output", "passed"}


@pytest.fixture(scope="module", params=["every layer", "no namespaces"])
def sandbox(request):
    os.environ["AGON_SECRET"] = "secret"
    made = Sandbox(is_unsafe_allowed=False, left_out=LAYERS[request.param])
    made.start()
    yield made
    made.close()
    del os.environ["AGON_SECRET"]


def descendants():
    """Process ids below this one, each with whether it is a zombie."""
    parents, states = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)], states[int(entry.name)] = int(fields[1]), fields[0]
    below, added = {os.getpid()}, True
    while added:
        added = {pid for pid, parent in parents.items() if parent in below} - below
        below |= added
    return {pid: states[pid] == "Z" for pid in below - {os.getpid()}}


def traces():
    """Files and shared memory that an attack would have left, by the names that the attacks use."""
    folders = ("/tmp", "/var/tmp", "/dev/shm", str(Path.home()), ".", "/")
    files = [path for folder in folders for path in Path(folder).glob("*agon*attack*")]
    segments = Path("/proc/sysvipc/shm")
    return files, len(segments.read_text().splitlines()) if segments.exists() else 1


def outcome_of_script(run):
    if run.ended != "exit":
        return run.ended
    if run.exit_code != 0:
        return "exit"
    answer = run.stdout.decode().strip()
    return "passed" if answer == "42" else answer if answer in ("refused", "passed") else "nothing"


def outcome_of_function(sandbox, program):
    try:
        with sandbox.load(program, LIMITS) as session:
            for x in (3, 4):
                value = session.call("solve", [x]).value
                if type(value) is not int or value != x * x + 1:
                    return "wrong"
            return "passed"
    except ProgramFailed as failure:
        return failure.kind


def check(sandbox, attack):
    before = descendants(), traces()
    start = time.monotonic()
    outcome = attack()
    seconds = time.monotonic() - start
    assert (descendants(), traces()) == before, "something was left behind"
    # A program that had no core may take up to twice the limit more; the rest is for a busy machine.
    assert seconds < 3 * LIMITS.timeout_s + 5
    return outcome


@pytest.mark.parametrize("attack", SCRIPTS, ids=lambda attack: attack["name"])
def test_no_script_passes_or_leaves_a_trace(sandbox, attack):
    run = None

    def go():
        nonlocal run
        run = sandbox.run(attack["program"], b"", LIMITS)
        return outcome_of_script(run)

    assert check(sandbox, go) in attack["must"], run


@pytest.mark.parametrize("attack", FUNCTIONS, ids=lambda attack: attack["name"])
def test_no_function_passes_or_leaves_a_trace(sandbox, attack):
    assert check(sandbox, lambda: outcome_of_function(sandbox, attack["program"])) in attack["must"]


def test_an_honest_program_passes_both_ways(sandbox):
    assert outcome_of_script(sandbox.run("print(42)", b"", LIMITS)) == "passed"
    assert outcome_of_function(sandbox, "def solve(x): return x * x + 1") == "passed"


def test_namespaces_alone_contain_what_they_do_not_refuse():
    sandbox = Sandbox(is_unsafe_allowed=False, left_out=LAYERS["namespaces alone"])
    sandbox.start()
    names = (
        "forks for ever",
        "leaves a daemon behind",
        "lets a grandchild hold its pipes",
        "kills its parent",
        "shares memory by name",
    )
    try:
        for attack in SCRIPTS:
            if attack["name"] in names:
                outcome = check(sandbox, lambda: outcome_of_script(sandbox.run(attack["program"], b"", LIMITS)))  # noqa: B023
                assert outcome in {*attack["must"], *CONTAINED}
        assert outcome_of_script(sandbox.run("print(42)", b"", LIMITS)) == "passed"
    finally:
        sandbox.close()
