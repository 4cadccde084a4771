"""What an evaluation measured, whoever played, and who played: what tells the rows of an arm apart."""

from __future__ import annotations

import re
from typing import NamedTuple

from agon.comparison.collect import Measured
from agon.runs.evaluations import PROMPT_SETTINGS, has_doubled_cap, noted_prompts

_STAGES = ("draft", "challenge")
_TABLES = {**dict.fromkeys(PROMPT_SETTINGS, "task"), "max_summary_tokens": "rollout"}
_ROUNDING_NOTE = re.compile(r"the adapters of [\w-]+ were rounded to (\w+) when it was packed")


class Change(NamedTuple):
    """Something that is not as trained: how it was here, and how it was there."""

    name: str
    value: str
    trained: str

    @property
    def text(self) -> str:
        """One phrase for a note."""
        table = _TABLES.get(self.name)
        what = f"{self.name} {self.value}" if table is None else f"{table}.{self.name}={self.value}"
        return f"{what} in place of {self.trained}"


class Variant(NamedTuple):
    """What is measured, whoever plays.

    `label` tells apart what has the same protocol: layers of drafts, what a selective cascade goes by, or the evaluation's own label
    where a run holds several measurements of the same thing. Empty otherwise. `changed` is what is not as trained, by name: prompts, the cap
    of a summary, an earlier checkpoint, rounded adapters.
    """

    protocol: str
    drafts: int
    has_doubled_cap: bool
    label: str
    changed: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """How a row's id calls it."""
        drafts = f"-k{self.drafts}" if self.drafts > 1 else ""
        return f"{self.protocol}{drafts}{'-doubled-cap' if self.has_doubled_cap else ''}"

    @property
    def otherwise(self) -> str:
        """What is not as trained, as the label of a result says it; empty where all is."""
        return "-".join(f"{name}-{value}" for name, value in self.changed)

    @property
    def as_played(self) -> tuple[tuple[str, str], ...]:
        """What is not as trained in how it was played, whatever the adapters were rounded to."""
        return tuple(one for one in self.changed if one[0] != "rounded")

    @property
    def ending(self) -> str:
        """How a row's id ends: with what is not as trained, and the label."""
        parts = (self.otherwise, self.label)
        return self.label if self.otherwise in self.label else "-".join(part for part in parts if part)


def option_for(name: str, value: str) -> str:
    """Return what asks `agon eval` for something that is not as trained; empty for what is no matter of asking."""
    if name == "checkpoint":
        return f" --checkpoint {value}"
    return f" --set {_TABLES[name]}.{name}={value}" if name in _TABLES else ""


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
    changed = tuple((one.name, one.value) for one in changes_of(item))
    return Variant(str(item.result["protocol"]), drafts, has_doubled_cap(item.result), label, changed)


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


def changes_of(item: Measured) -> list[Change]:
    """Return what is not as trained in an evaluation, but for the caps of its stages."""
    changes = [*_changed_prompts(item), *_changed_summary_cap(item), *_earlier_checkpoint(item)]
    notes = map(str, item.result.get("notes") or ())
    rounded = next((found[1] for note in notes if (found := _ROUNDING_NOTE.fullmatch(note))), None)
    if rounded is not None and any(_players(item)):
        changes.append(Change("rounded", rounded, "the adapters as trained"))
    return changes


def _players(item: Measured) -> list[str | None]:
    players = item.result["players"]
    return [*(players.get("drafters") or ()), players.get("challenger")]


def _changed_prompts(item: Measured) -> list[Change]:
    """Older results hold no prompts, and the base has no training: what a result's own notes say of it stands there.

    Programs as answers are no other prompt but go with their task.
    """
    noted = noted_prompts(item.result)
    asked = item.result.get("prompts") or {}
    changes: list[Change] = []
    for name in PROMPT_SETTINGS:
        trained = None if item.training is None else item.training.config.get(f"task.{name}")
        pair = noted.get(name) if trained is None or asked.get(name) is None else (asked[name], str(trained))
        if pair is not None and pair[0] != pair[1] and "code" not in pair:
            changes.append(Change(name, *pair))
    return changes


def _changed_summary_cap(item: Measured) -> list[Change]:
    """What a challenger reads is another thing where the summary was cut elsewhere. Older results do not say where it was."""
    cap = (item.result.get("caps") or {}).get("summary")
    trained = None if item.training is None else item.training.config.get("rollout.max_summary_tokens")
    return [] if None in (cap, trained) or cap == trained else [Change("max_summary_tokens", str(cap), str(trained))]


def _earlier_checkpoint(item: Measured) -> list[Change]:
    """A result says which checkpoint it is of where that was asked for by its step."""
    step = item.result.get("checkpoint")
    last = None if item.training is None else item.training.steps
    return [] if None in (step, last) or step == last else [Change("checkpoint", str(step), f"the last, {last}")]
