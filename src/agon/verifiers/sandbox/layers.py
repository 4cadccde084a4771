"""Entering the layers of isolation, one by one, and saying which are in force."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from agon.verifiers.sandbox import landlock, private_root
from agon.verifiers.sandbox.linux import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
    die_with_parent,
    unshare,
)
from agon.verifiers.sandbox.records import Layer

# Who a program is: inside a user namespace, and as real root outside of it too, where every owner has a number of its own.
PROGRAM_ID = 1000
_FIRST_PRIVATE_ID = 1_879_048_192
_NAMESPACES = ("user", "process", "file system", "network")


class Entered(NamedTuple):
    """The layers tried, and what the programs that run inside need to know.

    `program_id` is the user and group to switch to, None to stay. The open files lead to the machine's own /proc and to this
    process's namespace of processes; -1 where there is none.
    """

    layers: list[Layer]
    program_id: int | None
    has_own_ids: bool
    proc: int
    pid_namespace: int


def is_isolated(layers: Sequence[Layer]) -> bool:
    """Say whether these layers keep a program in: the namespaces, or both seccomp and Landlock."""
    in_force = {layer.name for layer in layers if layer.is_in_force}
    has_namespaces = {f"{name} namespace" for name in _NAMESPACES} <= in_force
    return "resource limits" in in_force and (has_namespaces or {"seccomp", "landlock"} <= in_force)


def missing(layers: Sequence[Layer]) -> str:
    """Name the layers that are not in force, and why."""
    return ", ".join(f"{layer.name} ({layer.detail})" for layer in layers if not layer.is_in_force)


def address_space() -> int:
    """Return the bytes of address space that this process takes now, about 64 MiB where that cannot be read."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 64 * 2**20


def enter(left_out: Collection[str], *, readable: Sequence[str] = ()) -> Entered:
    """Put this process into every namespace that it can enter. It must have one thread; it may come back as another process.

    Where a namespace of processes can be had, the caller goes on as its first process, while the one that called waits for it and
    ends with its exit status.
    """
    layers: list[Layer] = []
    program_id = _enter_user_namespace(layers, left_out)
    _try(layers, "process namespace", left_out, _become_first_process)
    has_pid_namespace = layers[-1].is_in_force
    proc = _open("/proc", os.O_PATH | os.O_DIRECTORY)
    pid_namespace = _open("/proc/self/ns/pid", os.O_RDONLY) if has_pid_namespace else -1
    _try(layers, "network namespace", left_out, lambda: unshare(CLONE_NEWNET))
    _try(layers, "ipc namespace", left_out, lambda: unshare(CLONE_NEWIPC | CLONE_NEWUTS))
    _try(layers, "file system namespace", left_out, lambda: private_root.enter_private_root(readable))
    if program_id is not None and not _can_run_as(program_id):
        program_id = None
        layers.append(Layer("user of its own", False, "another user cannot read Python's files"))
    elif program_id is not None:
        layers.append(Layer("user of its own", True, ""))
    else:
        layers.append(Layer("user of its own", False, "only root can give programs one"))
    has_own_ids = layers[0].is_in_force or program_id is not None
    return Entered(layers, program_id, has_own_ids, proc, pid_namespace)


def has(entered: Entered, name: str) -> bool:
    """Say whether the layer of that name is in force."""
    return any(layer.name == name and layer.is_in_force for layer in entered.layers)


def try_landlock(
    layers: list[Layer], left_out: Collection[str], *, has_private_root: bool, readable: Sequence[str] = ()
) -> int:
    """Prepare the rule set that programs are held to, and return it, -1 if there is none."""
    ruleset = -1

    def make() -> None:
        nonlocal ruleset
        if has_private_root:
            shown, writable = ["/"], [private_root.SCRATCH_PARENT]
        else:
            shown, writable = [*private_root.readable_paths(), *readable], []
        ruleset = landlock.make_ruleset(readable=shown, writable=[*writable, *private_root.device_paths()])

    _try(layers, "landlock", left_out, make)
    return ruleset


def _try(layers: list[Layer], name: str, left_out: Collection[str], step: Callable[[], object]) -> None:
    if name in left_out or ("namespaces" in left_out and name.endswith("namespace")):
        layers.append(Layer(name, False, "left out"))
        return
    try:
        detail = step()
    except OSError as error:
        layers.append(Layer(name, False, str(error.strerror or error)))
    else:
        layers.append(Layer(name, True, detail if isinstance(detail, str) else ""))


def _open(path: str, flags: int) -> int:
    try:
        return os.open(path, flags | os.O_CLOEXEC)
    except OSError:
        return -1


def _enter_user_namespace(layers: list[Layer], left_out: Collection[str]) -> int | None:
    is_root = os.geteuid() == 0
    private_id = _FIRST_PRIVATE_ID + os.getpid()
    has_two_ids = False

    def step() -> None:
        nonlocal has_two_ids
        # Tried by a child first: a namespace whose users cannot be mapped would be worse than none.
        _in_child(lambda: _new_user_namespace(private_id if is_root else None))
        has_two_ids = _new_user_namespace(private_id if is_root else None)

    _try(layers, "user namespace", left_out, step)
    if layers[-1].is_in_force:
        return PROGRAM_ID if has_two_ids else None
    return private_id if is_root else None


def _new_user_namespace(private_id: int | None) -> bool:
    """Enter a user namespace. Return whether it maps a second user, who is nobody outside; only real root can have that."""
    user, group = os.geteuid(), os.getegid()
    if private_id is None:
        unshare(CLONE_NEWUSER)
        _map_own_ids(user, group)
        return False
    own = os.open("/proc/self", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    ready, tell = os.pipe()
    helper = os.fork()
    if helper == 0:
        os.close(tell)
        os._exit(_write_maps(ready, own, private_id))
    os.close(ready)
    try:
        unshare(CLONE_NEWUSER)
        os.write(tell, b"x")
    finally:
        os.close(own)
        os.close(tell)
        _, status = os.waitpid(helper, 0)
    if status != 0:
        _map_own_ids(user, group)
    return status == 0


def _write_maps(ready: int, process: int, private_id: int) -> int:
    """Map two users for the process whose folder in /proc is open, from outside: only root there may."""
    try:
        if os.read(ready, 1):
            for name in ("uid_map", "gid_map"):
                _write(name, f"0 0 1\n{PROGRAM_ID} {private_id} 1\n", folder=process)
            return 0
    except OSError:
        return 1
    return 1


def _map_own_ids(user: int, group: int) -> None:
    _write("/proc/self/uid_map", f"{PROGRAM_ID} {user} 1\n")
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/gid_map", f"{PROGRAM_ID} {group} 1\n")


def _write(path: str, text: str, *, folder: int | None = None) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def _become_first_process() -> None:
    unshare(CLONE_NEWPID)
    child = os.fork()
    if child != 0:
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    die_with_parent()


def _can_run_as(program_id: int) -> bool:
    """Say whether that user can still read Python's own files."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(program_id, program_id, program_id)
            os.setresuid(program_id, program_id, program_id)
            os.close(os.open(os.__file__, os.O_RDONLY))
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def try_in_child(layers: list[Layer], name: str, left_out: Collection[str], step: Callable[[], None]) -> None:
    """Find out whether a layer can be entered that this process itself must not enter."""
    _try(layers, name, left_out, lambda: _in_child(step))


def _in_child(step: Callable[[], object]) -> None:
    heard, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            step()
        except Exception as error:
            os.write(tell, str((isinstance(error, OSError) and error.strerror) or error).encode() or b"failed")
        os._exit(0)
    os.close(tell)
    failure = os.read(heard, 500).decode()
    os.close(heard)
    os.waitpid(child, 0)
    if failure:
        raise OSError(failure)
