"""Past opponent: the drafter is a frozen copy of the rival, up to ten steps old. Its drafts are not learned from.

Tests whether the rival must be the present one. Roles alternate; only challengers learn, each in every other step.
"""

from __future__ import annotations

from agon.methods.agon import Agon
from agon.methods.base import Snapshot
from agon.records import ADAPTERS

_RENEWED_EVERY = 10


def past(adapter: str) -> str:
    """Name the frozen copy of an adapter."""
    return f"past-{adapter}"


class PastOpponent(Agon):
    """Agon's challengers against older copies of each other. The ten steps are our choice."""

    name = "past-opponent"
    learned = ("challenger",)

    def players(self, step: int) -> tuple[str, str]:
        """A's copy drafts against B in even steps, B's copy against A in odd ones."""
        return (past("A"), "B") if step % 2 == 0 else (past("B"), "A")

    def snapshots(self, step: int) -> tuple[Snapshot, ...]:
        """Renew both copies every ten steps, from step 0 on."""
        return tuple(Snapshot(past(name), name) for name in ADAPTERS) if step % _RENEWED_EVERY == 0 else ()
