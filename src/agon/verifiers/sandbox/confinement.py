"""What a process gives up for good before it runs a program: limits, user, capabilities, files, system calls."""

from __future__ import annotations

import os
import resource
from typing import NamedTuple

from agon.verifiers.sandbox import landlock, seccomp
from agon.verifiers.sandbox.linux import (
    die_with_parent,
    drop_capabilities,
    forbid_new_privileges,
    install_filter,
)

_MIB = 2**20
_MAX_FILE_MB = 16
_MAX_OPEN_FILES = 64
# Where calls are not filtered these may be processes, each with the whole memory limit.
_MAX_THREADS, _MAX_PROCESSES = 64, 8
# Recursion in C needs more than the usual 8 MiB; the kernel leaves a gap of 128 MiB for the main thread's stack.
_STACK_MB = 64


class Resources(NamedTuple):
    """Limits of one process: bytes of address space in all, and seconds of CPU time.

    `is_alone` tells that no other process counts as its user's, `is_filtered` that it cannot start processes.
    """

    address_space: int
    cpu_seconds: int
    is_alone: bool
    is_filtered: bool


class Bars(NamedTuple):
    """What a process is held to: the user to become (None: stay), the rule set of Landlock (-1: none), whether to filter calls.

    `has_own_files` tells that it can write only to a file system of its own.
    """

    program_id: int | None
    ruleset: int
    is_filtered: bool
    has_own_files: bool


def limit_resources(resources: Resources) -> None:
    """Limit this process.

    Raises:
        OSError, ValueError: the system refuses; a program must not start without its limits.
    """
    for kind in (resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_MSGQUEUE):
        resource.setrlimit(kind, (0, 0))
    _limit(resource.RLIMIT_FSIZE, _MAX_FILE_MB * _MIB)
    _limit(resource.RLIMIT_NOFILE, _MAX_OPEN_FILES)
    _limit(resource.RLIMIT_CPU, resources.cpu_seconds)
    # Only the soft limit: contest programs raise it. What a stack takes is part of the address space.
    resource.setrlimit(resource.RLIMIT_STACK, _stack())
    if resources.is_alone:
        _limit(resource.RLIMIT_NPROC, _MAX_THREADS if resources.is_filtered else _MAX_PROCESSES)
    _limit(resource.RLIMIT_AS, resources.address_space)


def confine(bars: Bars) -> None:
    """Give up everything that a program does not need. There is no way back.

    Raises:
        OSError: the system refuses.
    """
    if bars.program_id is not None:
        os.setgroups([])
        os.setresgid(bars.program_id, bars.program_id, bars.program_id)
        os.setresuid(bars.program_id, bars.program_id, bars.program_id)
    die_with_parent()
    drop_capabilities()
    forbid_new_privileges()
    if bars.ruleset >= 0:
        landlock.restrict_self(bars.ruleset)
    if bars.is_filtered:
        install_filter(seccomp.build_filter(os.getpid(), may_change_files=bars.has_own_files))


def _stack() -> tuple[int, int]:
    _, hard = resource.getrlimit(resource.RLIMIT_STACK)
    wanted = _STACK_MB * _MIB
    return (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)), hard


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))
