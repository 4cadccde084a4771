"""The protocols a trained pair (or a bare base) can be measured and deployed in, as line-ups."""

from __future__ import annotations

import math
from collections.abc import Mapping

from agon.errors import ConfigError
from agon.methods.base import BaseMethod
from agon.records import PROTOCOLS, Direction, Doubt, Lineup, Reading

# How many drafts a match has at least, where a user may ask for more.
_SEVERAL_DRAFTS: Mapping[str, int] = {"moa": 1, "majority": 2, "likeliest": 2, "selective": 1}
# More drafts, or layers of them, are a slip of the keyboard: a line-up names each of its drafters.
_MOST = 1024
_READS: Mapping[str, Reading] = {"placebo": "placebo", "empty-draft": "empty"}
_CASCADES = ("cascade", "answer-visible", "selective", *_READS)


def lineup_for(
    protocol: str,
    *,
    direction: Direction | None = "a-b",
    adapter: str | None = "A",
    num_drafts: int | None = None,
    is_base: bool = False,
    layers: int = 1,
    doubt: Doubt | None = None,
    threshold: float = math.inf,
) -> Lineup:
    """Return who plays in a protocol.

    `direction` orders the two adapters of a cascade, of its variants (placebo, empty-draft, answer-visible, selective), and of a blind second
    pass; without one `adapter` plays both stages. `adapter` also plays every stage of the protocols with one player; `is_base` puts the
    bare base in every place. `num_drafts` (default: as few as there can be) and `layers` are those of a mixture of agents;
    majority, likeliest and selective take several drafts, too. Likeliest has one draft of each adapter where `adapter` is None.
    A selective cascade challenges the drafts whose `doubt` (default: likelihood) is below `threshold`: all of them, by default.

    Raises:
        ConfigError: an unknown protocol, or an option that it does not have or that makes no sense in it.
    """
    if protocol not in PROTOCOLS:
        raise ConfigError(f"protocol is {protocol!r}, which is not known; known: {', '.join(PROTOCOLS)}")
    drafts = _num_drafts(protocol, num_drafts, doubt)
    _check_options(protocol, layers, doubt, threshold)
    player = None if is_base else adapter
    first, second = (player, player) if is_base or direction is None else ("A", "B")
    if direction == "b-a":
        first, second = second, first
    if protocol == "single":
        return Lineup(drafters=(player,))
    if protocol == "self-cascade":
        return Lineup(drafters=(player,), has_challenge=True, challenger=player)
    if protocol == "moa":
        return Lineup(drafters=(player,) * drafts, has_challenge=True, challenger=player, layers=layers)
    if protocol == "majority":
        return Lineup(drafters=(player,) * drafts, stands="majority")
    if protocol == "likeliest":
        is_pair = player is None and not is_base
        return Lineup(drafters=_one_of_each(drafts) if is_pair else (player,) * drafts, stands="likeliest")
    if protocol == "blind-second":
        return Lineup(drafters=(first, second), stands="second")
    assert protocol in _CASCADES, "every known protocol has a line-up"
    return Lineup(
        drafters=(first,) * drafts,
        has_challenge=True,
        challenger=second,
        reads=_READS.get(protocol, "own"),
        shows_answer=protocol == "answer-visible",
        doubt=(doubt or "likelihood") if protocol == "selective" else None,
        threshold=threshold if protocol == "selective" else 0.0,
    )


def trained_protocol(method: BaseMethod) -> str:
    """Return the protocol in which a method's adapters were trained: what is deployed is what was trained.

    A cascade, with the answer shown if it was in training; a self-cascade of one adapter that also challenges; a single answer.
    What opponents are hidden or shared for is a matter of training alone.
    """
    lineup = method.lineup(0)
    if not lineup.has_challenge:
        return "single"
    if lineup.shows_answer:
        return "answer-visible"
    return "cascade" if method.has_pair else "self-cascade"


def _one_of_each(num_drafts: int) -> tuple[str, str]:
    if num_drafts > 2:
        raise ConfigError(
            f"the number of drafts is {num_drafts}, but the likeliest of a pair has one draft of each adapter: leave it out, or choose one adapter"
        )
    return "A", "B"


def _num_drafts(protocol: str, asked: int | None, doubt: Doubt | None) -> int:
    # One draft always agrees with itself.
    least = 2 if doubt == "agreement" else _SEVERAL_DRAFTS.get(protocol, 1)
    if asked is None:
        return least
    if asked > 1 and protocol not in _SEVERAL_DRAFTS:
        raise ConfigError(
            f"the number of drafts is {asked}, but only {', '.join(_SEVERAL_DRAFTS)} take several: leave it out"
        )
    if asked < least:
        by = " by agreement" if doubt == "agreement" else ""
        raise ConfigError(f"the number of drafts is {asked}, but {protocol}{by} needs {least} or more")
    if asked > _MOST:
        raise ConfigError(f"the number of drafts is {asked}, but a match has at most {_MOST}: lower it")
    return asked


def _check_options(protocol: str, layers: int, doubt: Doubt | None, threshold: float) -> None:
    if layers < 1:
        raise ConfigError(
            f"the number of layers is {layers}, but a match has at least one layer of drafts: give 1 or more"
        )
    if layers > _MOST:
        raise ConfigError(f"the number of layers is {layers}, but a match has at most {_MOST}: lower it")
    if layers > 1 and protocol != "moa":
        raise ConfigError(
            f"the number of layers is {layers}, but {protocol} has one layer of drafts: only moa takes several"
        )
    if protocol != "selective" and (doubt is not None or threshold != math.inf):
        asked = f"a doubt by {doubt}" if doubt is not None else f"--threshold {threshold:g}"
        raise ConfigError(f"{asked} was asked for, but {protocol} has none: only selective has one")
    if math.isnan(threshold):
        raise ConfigError("--threshold is nan, which nothing is below or above: give a number, or dev")
