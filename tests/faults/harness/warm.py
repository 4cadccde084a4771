"""A process that has loaded all of agon and forks one that runs a command for each line of JSON it reads.

Loading torch takes seconds, of which a hundred commands would make the better part of an hour. What runs a command is a process like any
other: in a session of its own, with its own working folder, environment, pipes and faults. At its end it waits for threads and calls what was
left to be called, as Python does; only the taking down of all modules is left out, which takes longer than most commands.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import selectors
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

LOADED = (
    *("agon.cli.main", "agon.train.run", "agon.evaluation.request", "agon.ablation.worker", "agon.ablation.run"),
    *("agon.comparison.report", "agon.serve.run", "agon.serve.solve", "agon.serve.app", "agon.serve.server"),
    *("agon.cli.table", "agon.cli.watch", "agon.cli.comparison", "agon.cli.matrix_table", "agon.export.run"),
    *("agon.audit.stored", "agon.audit.differences", "agon.verifiers.math", "torch.optim", "agon.cli.progress"),
    *("transformers.models.llama.modeling_llama", "peft.utils.transformers_weight_conversion"),
)


def main() -> None:
    """Serve until standard input closes."""
    for name in LOADED:
        import_module(name)
    import_module("agon.tasks.countdown").countdown_splits()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # What is collected is copied: a child would copy all of torch.
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            supervise(request)
            return


def supervise(request: dict[str, Any]) -> None:
    """Start the command in a further process, pass what it prints into files, and leave its exit status in `status`."""
    place = Path(request["place"])
    out, err = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        become(request, out[1], err[1])
        return
    for descriptor in (out[1], err[1]):
        os.close(descriptor)
    _write(place / "pid", str(pid))
    with selectors.DefaultSelector() as selector:
        for pipe, name in ((out[0], "stdout"), (err[0], "stderr")):
            os.set_blocking(pipe, False)
            selector.register(pipe, selectors.EVENT_READ, (place / name).open("wb", buffering=0))
        ended, status, used = os.wait4(pid, os.WNOHANG)
        while not ended:
            _pump(selector, 0.02)
            ended, status, used = os.wait4(pid, os.WNOHANG)
        # What was written before the end is in the pipes by now.
        while _pump(selector, 0.0):
            pass
    _write(place / "cpu", f"{used.ru_utime + used.ru_stime:.3f}")
    _write(place / "status", str(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def become(request: dict[str, Any], out: int, err: int) -> None:
    """Be the command."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.closerange(3, 256)
    os.chdir(request["cwd"])
    os.environ.update(request["environment"])
    sys.path[:0] = request["path"]
    # A shell lets what it starts in the background ignore these, and so would every command here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    sys.argv = ["agon", *request["arguments"]]

    import sitecustomize

    from agon.cli.main import console

    sitecustomize.install(request["faults"])
    _end(console)


def _end(command: Callable[[], NoReturn]) -> None:
    code: object = 1
    try:
        command()
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    if isinstance(code, str):
        os.write(2, f"{code}\n".encode())
    os._exit(code if isinstance(code, int) else int(code is not None))


def _pump(selector: selectors.BaseSelector, wait_s: float) -> bool:
    """Pass on what is there to be read, and tell whether there was anything."""
    if not selector.get_map():
        time.sleep(wait_s)
        return False
    ready = selector.select(wait_s)
    for key, _ in ready:
        data = os.read(key.fd, 65_536)
        if data:
            key.data.write(data)
        else:
            selector.unregister(key.fd)
    return bool(ready)


def _write(path: Path, text: str) -> None:
    temporary = path.with_suffix(".part")
    temporary.write_text(text)
    temporary.rename(path)


if __name__ == "__main__":
    main()
