"""The system calls that Python 3.11 has no function for, each raising OSError with the call's name."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from contextlib import suppress
from functools import cache

CLONE_NEWNS = 0x0002_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP = 1, 4, 24
_PR_SET_SECUREBITS, _PR_SET_NO_NEW_PRIVS = 28, 38
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
# No capability comes from being user 0, none is kept over a change of user, none is ambient; each locked.
_SECURE_BITS = 0b1110_1111
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_CAPABILITY_VERSION_3 = 0x2008_0522
_KEYCTL_JOIN_SESSION_KEYRING = 1

# Numbers on x86_64, then on aarch64.
_NUMBERS = {
    "pivot_root": (155, 41),
    "capset": (126, 91),
    "keyctl": (250, 219),
    "mount_setattr": (442, 442),
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
}
MACHINES = ("x86_64", "aarch64")


def is_supported() -> bool:
    """Say whether this is a system whose calls are known here: 64-bit Linux on x86_64 or aarch64."""
    return sys.platform == "linux" and platform.machine() in MACHINES and sys.maxsize > 2**32


def syscall(name: str, *arguments: int | bytes | ctypes.Array[ctypes.c_char]) -> int:
    """Make one system call by its number, and return its result."""
    number = _NUMBERS[name][MACHINES.index(platform.machine())]
    return _checked(name, _libc().syscall(ctypes.c_long(number), *(_wide(argument) for argument in arguments)))


def unshare(flags: int) -> None:
    """Leave the namespaces named by the flags for fresh ones."""
    _checked("unshare", _libc().unshare(flags))


def setns(file: int, kind: int) -> None:
    """Enter the namespace that the open file names."""
    _checked("setns", _libc().setns(file, kind))


def mount(source: str, target: str, *, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount a file system or bind a folder."""
    call = _libc().mount
    _checked(
        "mount", call(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode()), target
    )


def unmount(target: str) -> None:
    """Take a mount away at once, whoever still uses it."""
    _checked("umount2", _libc().umount2(target.encode(), MNT_DETACH), target)


def restrict_mount(target: str, flags: int, *, is_recursive: bool) -> None:
    """Add MS_RDONLY, MS_NOSUID, MS_NODEV or MS_NOEXEC to a mount, and to all below it if asked. Needs Linux 5.12."""
    attributes = struct.pack("=QQQQ", flags, 0, 0, 0)
    how = _AT_RECURSIVE if is_recursive else 0
    syscall("mount_setattr", _AT_FDCWD, target.encode(), how, attributes, len(attributes))


def forget_keys() -> None:
    """Leave the kernel's keys of whoever started this process behind, where there are any."""
    with suppress(OSError):
        syscall("keyctl", _KEYCTL_JOIN_SESSION_KEYRING, 0)


def die_with_parent() -> None:
    """Have this process killed when the one that started it is gone. Lost on a change of user: call it after."""
    _prctl("PR_SET_PDEATHSIG", _PR_SET_PDEATHSIG, 9)


def forbid_dumps() -> None:
    """Keep other processes of the same user from reading this one's memory."""
    _prctl("PR_SET_DUMPABLE", _PR_SET_DUMPABLE, 0)


def forbid_new_privileges() -> None:
    """Keep this process and all that it starts from gaining any right by running a program."""
    _prctl("PR_SET_NO_NEW_PRIVS", _PR_SET_NO_NEW_PRIVS, 1)


def bar_capabilities() -> None:
    """Keep this process and all that it starts from ever gaining a capability it lacks. What it has it keeps."""
    libc = _libc()
    # Each fails without CAP_SETPCAP, and then there is nothing to lose: no_new_privs keeps an empty set empty.
    libc.prctl(_PR_SET_SECUREBITS, ctypes.c_ulong(_SECURE_BITS), 0, 0, 0)
    for capability in range(64):
        if libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) != 0:
            break


def drop_capabilities() -> None:
    """Give up every capability."""
    syscall("capset", struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), struct.pack("=6I", 0, 0, 0, 0, 0, 0))


def install_filter(instructions: bytes) -> None:
    """Filter this thread's system calls from here on by a program of 8-byte instructions."""
    buffer = ctypes.create_string_buffer(instructions, len(instructions))
    program = struct.pack("@HP", len(instructions) // 8, ctypes.addressof(buffer))
    _prctl("PR_SET_SECCOMP", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program)


def _prctl(name: str, option: int, first: int, second: bytes | int = 0) -> None:
    _checked(name, _libc().prctl(option, ctypes.c_ulong(first), _wide(second), ctypes.c_ulong(0), ctypes.c_ulong(0)))


def _wide(argument: int | bytes | ctypes.Array[ctypes.c_char]) -> object:
    return ctypes.c_long(argument) if isinstance(argument, int) else argument


def _checked(name: str, result: int, detail: str = "") -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}{f' of {detail}' if detail else ''}: {os.strerror(number)}")
    return result


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
