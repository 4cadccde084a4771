"""What an evaluation measured, whoever played, and who played: what tells the rows of an arm apart."""

from __future__ import annotations

import re
from typing import NamedTuple

from agon.comparison.collect import Measured
from agon.runs.evaluations import PROMPT_SETTINGS, has_doubled_cap

_STAGES = ("draft", "challenge")
_PROMPT_NOTE = re.compile(rf"measured with task\.({'|'.join(PROMPT_SETTINGS)})=([\w-]+), trained with ([\w-]+)")


class Variant(NamedTuple):
    """What is measured, whoever plays.

    `label` tells apart what has the same protocol: layers of drafts, what a selective cascade goes by, or the evaluation's own label
    where a run holds several measurements of the same thing. Empty otherwise. `prompts` are the settings, with their values, by which
    players were asked otherwise than in their training.
    """

    protocol: str
    drafts: int
    has_doubled_cap: bool
    label: str
    prompts: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """How a row's id calls it."""
        drafts = f"-k{self.drafts}" if self.drafts > 1 else ""
        return f"{self.protocol}{drafts}{'-doubled-cap' if self.has_doubled_cap else ''}"

    @property
    def asked(self) -> str:
        """How players were asked, as the label of a result says it; empty for what they were trained with."""
        return "-".join(f"{name}-{value}" for name, value in self.prompts)

    @property
    def ending(self) -> str:
        """How a row's id ends: what it was asked, if otherwise than in training, and the label."""
        return self.label if self.asked in self.label else "-".join(part for part in (self.asked, self.label) if part)


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
    prompts = tuple((name, asked) for name, (asked, _) in changed_prompts(item).items())
    return Variant(str(item.result["protocol"]), drafts, has_doubled_cap(item.result), label, prompts)


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


def changed_prompts(item: Measured) -> dict[str, tuple[str, str]]:
    """Return what players were asked, or read, otherwise than in their training, by setting: how it was, and how in training.

    Older results hold no prompts, and the base has no training: what a result's own notes say of it stands there. Programs as answers
    are no other prompt but go with their task.
    """
    notes = map(str, item.result.get("notes") or ())
    noted = {found[1]: (found[2], found[3]) for note in notes if (found := _PROMPT_NOTE.fullmatch(note))}
    asked = item.result.get("prompts") or {}
    changed: dict[str, tuple[str, str]] = {}
    for name in PROMPT_SETTINGS:
        trained = None if item.training is None else item.training.config.get(f"task.{name}")
        pair = noted.get(name) if trained is None or asked.get(name) is None else (asked[name], str(trained))
        if pair is not None and pair[0] != pair[1] and "code" not in pair:
            changed[name] = pair
    return changed
