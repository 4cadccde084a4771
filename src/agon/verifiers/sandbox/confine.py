"""Confining a process of our own that may go wrong: one that runs a data set's own tests, or a scorer that evaluates text."""

from __future__ import annotations

import os
import resource
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from agon.verifiers.sandbox import landlock, layers, private_root, seccomp
from agon.verifiers.sandbox.linux import (
    bar_capabilities,
    die_with_parent,
    drop_capabilities,
    forbid_new_privileges,
    install_filter,
    is_supported,
)
from agon.verifiers.sandbox.records import Layer, SandboxError

_MIB = 2**20
_MAX_OPEN_FILES = 256


def confine_this_process(
    *, memory_mb: int, is_unsafe_allowed: bool, readable: Sequence[str] = (), left_out: Sequence[str] = ()
) -> list[Layer]:
    """Take from this process, for good, the network, the right to start processes, and all files but those Python imports from.

    Open files stay usable, so a sandbox that was started before can go on being used; one that ends cannot be started again. The
    modules on `sys.path` and the paths in `readable` can still be read; nothing can be written. The address space may grow by
    `memory_mb` MiB. It ends with the thread that started it. Returns the layers in force.

    Raises:
        SandboxError: it cannot be isolated, or has more than one thread, which would stay free.
    """
    if not is_supported():
        raise SandboxError(
            f"a process can only be confined on 64-bit Linux (x86_64 or aarch64), and this is {sys.platform}"
        )
    if threading.active_count() > 1 or _num_threads() > 1:
        raise SandboxError("a process with several threads cannot be confined: confine it before it starts any")
    try:
        extra = private_root.outermost([*readable, *_import_paths()])
        entered = layers.enter([*left_out, "process namespace"], readable=extra)
    except (OSError, ImportError) as error:
        reason = private_root.why_unreadable() or str(error)
        raise SandboxError(f"the checking process cannot be confined: {reason}") from error
    tried = entered.layers
    has_root = layers.has(entered, "file system namespace")
    ruleset = layers.try_landlock(tried, left_out, has_private_root=has_root, readable=extra)
    layers.try_in_child(tried, "seccomp", left_out, _filter)
    layers.try_in_child(tried, "resource limits", left_out, lambda: _limit(memory_mb))
    if not is_unsafe_allowed and not is_isolated_alone(tried):
        raise SandboxError(f"the checking process cannot be confined here, missing: {layers.missing(tried)}")
    _limit(memory_mb)
    die_with_parent()
    bar_capabilities()
    drop_capabilities()
    forbid_new_privileges()
    if ruleset >= 0:
        landlock.restrict_self(ruleset)
        os.close(ruleset)
    if entered.proc >= 0:
        os.close(entered.proc)
    if layers.has(entered, "seccomp"):
        _filter()
    return tried


def is_isolated_alone(tried: Sequence[Layer]) -> bool:
    """Say whether the layers keep a process in that is the first of no namespace of processes."""
    return layers.is_isolated(
        [Layer("process namespace", True, "not needed"), *(layer for layer in tried if "process" not in layer.name)]
    )


def _import_paths() -> list[str]:
    # A relative path would stand for the working directory, which may hold anything.
    paths = [Path(path) for path in sys.path]
    return [str(path) for path in paths if path.is_absolute() and path != Path("/") and path.is_dir()]


def _filter() -> None:
    forbid_new_privileges()
    install_filter(seccomp.build_filter(os.getpid(), may_change_files=False, may_pass_files=True))


def _limit(memory_mb: int) -> None:
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, _MAX_OPEN_FILES),
    ):
        resource.setrlimit(kind, (value, value))
    most = layers.address_space() + memory_mb * _MIB
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _num_threads() -> int:
    try:
        return len(list(Path("/proc/self/task").iterdir()))
    except OSError:
        return 1
