"""The protocols a trained pair (or a bare base) can be measured and deployed in, as line-ups."""

from __future__ import annotations

from agon.errors import ConfigError
from agon.records import PROTOCOLS, Direction, Lineup


def lineup_for(
    protocol: str,
    *,
    direction: Direction = "a-b",
    adapter: str | None = "A",
    num_drafts: int = 1,
    is_base: bool = False,
) -> Lineup:
    """Return who plays in a protocol.

    `direction` orders the two adapters of a cascade and of a blind second pass; `adapter` plays every stage of the protocols with
    one player; `is_base` puts the bare base in every place.

    Raises:
        ConfigError: an unknown protocol, or too few drafts for it.
    """
    first, second = ("A", "B") if direction == "a-b" else ("B", "A")
    player = None if is_base else adapter
    if num_drafts < 1 or (protocol == "majority" and num_drafts < 2):
        raise ConfigError(
            f"--drafts is {num_drafts}, but {protocol} needs {2 if protocol == 'majority' else 1} or more"
        )
    if num_drafts > 1 and protocol not in ("moa", "majority"):
        raise ConfigError(f"--drafts is {num_drafts}, but only moa and majority take several drafts")
    if is_base:
        first = second = None
    if protocol == "single":
        return Lineup(drafters=(player,))
    if protocol == "cascade":
        return Lineup(drafters=(first,), has_challenge=True, challenger=second)
    if protocol == "self-cascade":
        return Lineup(drafters=(player,), has_challenge=True, challenger=player)
    if protocol == "moa":
        return Lineup(drafters=(player,) * num_drafts, has_challenge=True, challenger=player)
    if protocol == "majority":
        return Lineup(drafters=(player,) * num_drafts, vote=True)
    if protocol == "blind-second":
        return Lineup(drafters=(first, second), second_counts=True)
    raise ConfigError(f"protocol is {protocol!r}, which is not known; known: {', '.join(PROTOCOLS)}")
