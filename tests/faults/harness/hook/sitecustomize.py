"""Faults inside a process of agon. Python imports this module by itself where its folder is on PYTHONPATH.

Files are watched through Python's audit events, so that the very moment can be hit: just before a file is opened for writing, renamed,
removed or flushed. AGON_FAULT holds a JSON list of faults; without it nothing happens.

A fault is `{"at": …, "do": …}`. `at` is `{"event": "open", "path": PART, "number": K}`: before the K-th event (from 1) of that name whose
path has PART in it, any event where `event` is "any", and before all later ones with `"is_first": true`; or `{"cpu_s": S}`: when this process has computed for S more seconds; or
`{"call": "module:Class.function", "number": K}`: at the K-th call. `do` is one of

- "kill": SIGKILL to this process
- "signal": signal `number`, `times` times (once)
- "pause": write `reached`, and go on when a file of that name with ".go" is there
- "short": let no file grow by more than `bytes` bytes from here on, as on a disk that is full
- "raise": raise an OSError of `errno`, or a RuntimeError of `text`
- "record": append every event to `file`
- "set": let `key` of the mapping `name` be `value`, such as a default that is too long for a test
- "clock": let time.time jump about, seeded by `seed`
"""

from __future__ import annotations

import importlib
import json
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_NAMED = {
    "os.rename": "rename",
    "os.mkdir": "mkdir",
    "os.remove": "remove",
    "os.rmdir": "rmdir",
    "os.truncate": "truncate",
}


class _Faults:
    def __init__(self, faults: list[dict[str, Any]]) -> None:
        self._faults = faults
        self._counts = [0] * len(faults)
        self._is_inside = False
        self._fsync = os.fsync
        sys.addaudithook(self._audit)
        os.fsync = self._before_fsync
        for fault in faults:
            self._prepare(fault)

    def _prepare(self, fault: dict[str, Any]) -> None:
        at = fault.get("at", {})
        if fault["do"] == "clock":
            _let_the_clock_jump(fault["seed"])
        elif fault["do"] == "set":
            _find(fault["name"])[fault["key"]] = fault["value"]
        elif "cpu_s" in at:
            threading.Thread(target=self._after, args=(at["cpu_s"], fault), daemon=True).start()
        elif "call" in at:
            self._wrap(at, fault)

    def _after(self, cpu_s: float, fault: dict[str, Any]) -> None:
        end = time.process_time() + cpu_s
        while time.process_time() < end:
            time.sleep(0.002)
        _do(fault)

    def _wrap(self, at: dict[str, Any], fault: dict[str, Any]) -> None:
        module, _, path = at["call"].partition(":")
        names, _, last = path.rpartition(".")
        owner = _find(f"{module}:{names}")
        whole, calls = getattr(owner, last), [0]

        def wrapped(*arguments: Any, **named: Any) -> Any:
            calls[0] += 1
            if calls[0] == at.get("number", 1):
                _do(fault)
            return whole(*arguments, **named)

        setattr(owner, last, wrapped)

    def _before_fsync(self, descriptor: int) -> None:
        self._see("fsync", _path_of(descriptor))
        self._fsync(descriptor)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            is_write = (isinstance(mode, str) and set(mode) & set("wax+")) or (
                isinstance(flags, int) and flags & _WRITING
            )
            if isinstance(path, str | bytes):
                self._see("open" if is_write else "read", _whole(path))
        elif event in _NAMED:
            self._see(_NAMED[event], _whole(arguments[0]) if isinstance(arguments[0], str | bytes) else "")

    def _see(self, event: str, path: str) -> None:
        if self._is_inside:
            return
        self._is_inside = True
        try:
            for index, fault in enumerate(self._faults):
                self._see_one(index, fault, event, path)
        finally:
            self._is_inside = False

    def _see_one(self, index: int, fault: dict[str, Any], event: str, path: str) -> None:
        at = fault.get("at", {})
        wanted = at.get("event")
        if wanted not in ("any", event) or (wanted == "any" and event == "read") or at.get("path", "") not in path:
            return
        if fault["do"] == "record":
            with Path(fault["file"]).open("a", encoding="utf-8") as log:
                log.write(json.dumps([event, path]) + "\n")
            return
        self._counts[index] += 1
        number = at.get("number", 1)
        if self._counts[index] == number or (at.get("is_first") and self._counts[index] > number):
            _do(fault, path)


def _find(name: str) -> Any:
    """Return what "module:a.b" names, or the module itself for "module:"."""
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in filter(None, path.split(".")):
        found = getattr(found, part)
    return found


def _do(fault: dict[str, Any], path: str = "") -> None:
    match fault["do"]:
        case "kill":
            os.kill(os.getpid(), 9)
        case "signal":
            for _ in range(fault.get("times", 1)):
                os.kill(os.getpid(), fault["number"])
        case "pause":
            _pause(fault["reached"])
        case "short":
            _allow_bytes(path, fault["bytes"])
        case "raise" if "text" in fault:
            raise RuntimeError(fault["text"])
        case "raise":
            raise OSError(fault["errno"], os.strerror(fault["errno"]), path)
        case unknown:
            raise ValueError(f"no fault is called {unknown!r}")


def _pause(reached: str) -> None:
    Path(reached).write_text(str(os.getpid()), encoding="utf-8")
    while not Path(f"{reached}.go").exists():
        time.sleep(0.005)


def _allow_bytes(path: str, count: int) -> None:
    import resource

    size = Path(path).stat().st_size if Path(path).exists() else 0
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + count, hard))


def _whole(path: str | bytes) -> str:
    return os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - links stay as they are


def _path_of(descriptor: int) -> str:
    try:
        return str(Path(f"/proc/self/fd/{descriptor}").readlink())
    except OSError:
        return ""


def _let_the_clock_jump(seed: int) -> None:
    """Let time.time leap by up to a day, forwards and backwards, at every call; monotonic clocks stay as they are."""
    rng, real, real_ns = random.Random(seed), time.time, time.time_ns
    time.time = lambda: real() + rng.uniform(-86_400.0, 86_400.0)
    time.time_ns = lambda: real_ns() + rng.randrange(-86_400_000_000_000, 86_400_000_000_000)


def install(faults: list[dict[str, Any]]) -> None:
    """Let these faults happen in this process."""
    if faults:
        _Faults(faults)


install(json.loads(os.environ.get("AGON_FAULT", "[]")))
