"""Who is let in, and how much of them. Without imports of its own: the command line takes its defaults from here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request may cost. Units: bytes; seconds, `timeout_s` from a request's first byte to its last answer."""

    timeout_s: float = 600.0
    max_body_bytes: int = 1024 * 1024
    keepalive_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Access:
    """Who is let in: who has one of `keys`, under an address or one of the names in `hosts`, within the limits.

    At most `max_running` matches run at once (None: as many as suit what samples), and `max_queue` requests wait.
    """

    limits: Limits = Limits()
    keys: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    max_running: int | None = None
    max_queue: int = 256
