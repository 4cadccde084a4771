"""Landlock: what of the file system, the network and other processes' sockets and signals a process can reach, by its own choice."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from agon.verifiers.sandbox.linux import syscall

_CREATE_VERSION = 1
_RULE_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE = 1 << 14
_READ = _EXECUTE | _READ_FILE | _READ_DIR
# The number of file system rights that each version of the interface knows, from version 1 on.
_NUM_FILE_RIGHTS = (13, 14, 15, 15, 16)
_NET_RIGHTS, _SCOPES = 0b11, 0b11
_NET_SINCE, _SCOPES_SINCE = 4, 6


def version() -> int:
    """Return the interface's version, 0 where there is none."""
    with suppress(OSError):
        return syscall("landlock_create_ruleset", 0, 0, _CREATE_VERSION)
    return 0


def make_ruleset(*, readable: Sequence[str], writable: Sequence[str]) -> int:
    """Return an open rule set: read these folders and files, write beneath those, nothing else; no TCP, no signal to others.

    Paths that do not exist are left out.

    Raises:
        OSError: no Landlock here.
    """
    known = version()
    if not known:
        raise OSError("Landlock is not available")
    rights = (1 << _NUM_FILE_RIGHTS[min(known, len(_NUM_FILE_RIGHTS)) - 1]) - 1
    handled = [rights]
    if known >= _NET_SINCE:
        handled.append(_NET_RIGHTS)
    if known >= _SCOPES_SINCE:
        handled.append(_SCOPES)
    attributes = struct.pack(f"={len(handled)}Q", *handled)
    ruleset = syscall("landlock_create_ruleset", attributes, len(attributes), 0)
    for path in readable:
        _allow(ruleset, path, _READ)
    for path in writable:
        _allow(ruleset, path, rights & ~_EXECUTE)
    return ruleset


def restrict_self(ruleset: int) -> None:
    """Hold this thread, and all that it starts, to the rule set. Needs no_new_privs."""
    syscall("landlock_restrict_self", ruleset, 0)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        file = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not Path(path).is_dir():
            rights &= _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
        syscall("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, struct.pack("=Qi", rights, file), 0)
    finally:
        os.close(file)
