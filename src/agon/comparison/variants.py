"""What an evaluation measured, whoever played, and who played: what tells the rows of an arm apart."""

from __future__ import annotations

from typing import NamedTuple

from agon.comparison.collect import Measured
from agon.runs.evaluations import has_doubled_cap

_STAGES = ("draft", "challenge")


class Variant(NamedTuple):
    """What is measured, whoever plays.

    `label` tells apart what has the same protocol: layers of drafts, what a selective cascade goes by, or the evaluation's own label
    where a run holds several measurements of the same thing. Empty otherwise.
    """

    protocol: str
    drafts: int
    has_doubled_cap: bool
    label: str

    @property
    def name(self) -> str:
        """How a row's id calls it."""
        drafts = f"-k{self.drafts}" if self.drafts > 1 else ""
        return f"{self.protocol}{drafts}{'-doubled-cap' if self.has_doubled_cap else ''}"


def variant_of(item: Measured) -> Variant:
    """Return what an evaluation measured."""
    lineup = item.result.get("lineup") or {}
    layers, doubt = lineup.get("layers") or 1, lineup.get("doubt")
    details = [f"l{layers}" if layers > 1 else "", str(doubt) if doubt is not None else ""]
    label = "-".join(detail for detail in details if detail)
    drafters = item.result["players"].get("drafters") or ()
    # The second draft of a blind second pass is no other draft to choose from: it is the answer. Of a pair's likeliest each has one.
    is_one_each = item.result["protocol"] == "blind-second" or len(set(drafters)) > 1
    drafts = 1 if is_one_each else max(1, len(drafters))
    return Variant(str(item.result["protocol"]), drafts, has_doubled_cap(item.result), label)


def players_of(item: Measured) -> str:
    """Name the players: the direction, or the one adapter that plays every stage, or drafters and challenger."""
    if item.direction is not None:
        return item.direction
    players = item.result["players"]
    drafters = [str(name or "base").lower() for name in players.get("drafters") or ()]
    challenger = str(players["challenger"]).lower() if players.get("challenger") is not None else None
    if challenger is None or set(drafters) == {challenger}:
        return "+".join(dict.fromkeys(drafters))
    return f"{'+'.join(dict.fromkeys(drafters))}-{challenger}"


def changed_caps(item: Measured) -> dict[str, tuple[int, int]]:
    """Return the caps an evaluation had where they are not its training's, by stage: tokens, and those of its training.

    Those of a doubled cap are twice its training's. Older results hold no caps, and the base has no training.
    """
    if item.training is None:
        return {}
    factor = 2 if has_doubled_cap(item.result) else 1
    caps = item.result.get("caps") or {}
    pairs = {stage: (caps.get(stage), item.training.config.get(f"rollout.max_{stage}_tokens")) for stage in _STAGES}
    return {
        stage: (cap, factor * trained)
        for stage, (cap, trained) in pairs.items()
        if cap is not None and trained is not None and cap != factor * trained
    }
