"""Which layers of isolation this machine offers, found by trying."""

from __future__ import annotations

import sys
from functools import cache

from agon.verifiers.sandbox.linux import is_supported
from agon.verifiers.sandbox.records import Layer, Limits, SandboxError
from agon.verifiers.sandbox.sandbox import Sandbox

_LIMITS = Limits(timeout_s=10.0, memory_mb=128, output_mb=1)


@cache
def isolation_report() -> list[Layer]:
    """Return each layer, entered for real by a process of its own that then ran a program; tried once."""
    if not is_supported():
        return [
            Layer("linux", False, f"programs run only on 64-bit Linux (x86_64 or aarch64), and this is {sys.platform}")
        ]
    sandbox = Sandbox(is_unsafe_allowed=True)
    try:
        sandbox.start()
        run = sandbox.run("print(6 * 7)", b"", _LIMITS)
        works = run.stdout == b"42\n"
        detail = "" if works else f"ended by {run.ended} {run.exit_code}: {run.stderr_tail[-200:]}"
        return [*sandbox.layers, Layer("a program runs", works, detail)]
    except SandboxError as error:
        return [*sandbox.layers, Layer("a program runs", False, str(error))]
    finally:
        sandbox.close()
