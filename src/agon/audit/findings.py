"""What a look at the machine found, one line each."""

from __future__ import annotations

from typing import Literal, NamedTuple

State = Literal["ok", "missing", "broken"]


class Finding(NamedTuple):
    """One thing that was looked for. `missing` can be done without; `broken` cannot. `remedy` says what would help."""

    group: str
    name: str
    state: State
    detail: str
    remedy: str = ""


def readable(num_bytes: float) -> str:
    """Return a number of bytes for people, in powers of 1,024 as memory is sold."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if num_bytes < 1024:
            return f"{num_bytes:.4g} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:.4g} TiB"
