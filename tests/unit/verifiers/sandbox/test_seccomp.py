import re
from pathlib import Path

import pytest

from agon.verifiers.sandbox import linux, seccomp

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
# Newer than the headers of some systems, or named otherwise by the table that 32-bit machines share.
LATER = {"futex_wake", "futex_wait", "futex_requeue", "newfstatat"}
TABLES = " ".join([seccomp._ALWAYS, seccomp._FILES, seccomp._PASSING, seccomp._BY_ARGUMENT])


@pytest.mark.parametrize("machine", linux.MACHINES)
def test_the_numbers_are_those_of_the_systems_own_headers(machine):
    if not HEADERS[machine].exists():
        pytest.skip(f"{HEADERS[machine]} is not installed")
    defined = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\s", HEADERS[machine].read_text()))
    numbers = seccomp._numbers(TABLES, machine) | {
        name: pair[linux.MACHINES.index(machine)] for name, pair in linux._NUMBERS.items()
    }
    known = {name: number for name, number in numbers.items() if name not in LATER}
    assert {name: int(defined[name]) for name in known} == known


@pytest.mark.parametrize("machine", linux.MACHINES)
def test_no_number_is_listed_twice(machine):
    numbers = list(seccomp._numbers(TABLES, machine).values())
    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("machine", linux.MACHINES)
def test_every_jump_stays_inside_and_every_path_ends(machine):
    program = seccomp.build_filter(1, may_change_files=True, machine=machine)
    instructions = [program[at : at + 8] for at in range(0, len(program), 8)]
    for at, (low, high, if_true, if_false, *_) in enumerate(instructions):
        code = low + 256 * high
        if code & 7 == 5:  # a jump
            assert at + 1 + max(if_true, if_false) < len(instructions)
    assert instructions[-1][0] == 6  # a return
    assert len(instructions) <= 4096


def test_changing_files_is_allowed_only_with_files_of_its_own():
    with_files = seccomp.build_filter(1, may_change_files=True)
    assert len(with_files) > len(seccomp.build_filter(1, may_change_files=False))
