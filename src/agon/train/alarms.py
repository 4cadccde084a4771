"""When a training's numbers have gone bad: `agon.train.rules` held against the lines of metrics.jsonl, one after the other.

A rule looks at one adapter in one role, for roles swap: an adapter that has collapsed drafts in every other step. It sounds when it
found its number bad in so many of their steps in a row, and again only after as many good ones. All of it follows from the lines, so
that a resumed run knows what was before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from agon.config import AlarmMode, AlarmSettings
from agon.records import Lineup
from agon.train.rules import RULES, Rule, Series

_ROLES = {"draft": "drafter", "challenge": "challenger"}


@dataclass(frozen=True, slots=True)
class RunAlarm:
    """What has gone wrong in a run by `step`, since when, and the number that says so where there is one.

    `about` names an adapter in a role, two players, or the run. `is_broken` says that the model could do better before.
    """

    name: str
    step: int
    since: int
    about: str
    mode: AlarmMode
    message: str
    metric: str | None = None
    value: float | None = None
    threshold: float | None = None
    is_broken: bool = False

    def __str__(self) -> str:
        return f"{self.name}, {self.about} since step {self.since}: {self.message}"

    @property
    def setting(self) -> str:
        """The key in [alarms] that switches it."""
        return self.name.replace("-", "_")

    def to_json(self) -> dict[str, Any]:
        """Turn the alarm into plain JSON types."""
        return asdict(self)


@dataclass(slots=True)
class _Spell:
    """Bad steps in a row, until as many good ones in a row."""

    num_bad: int = 0
    num_good: int = 0
    since: int = 0
    is_on: bool = False

    def see(self, is_bad: bool, step: int, *, needed: int) -> bool:
        """Take a step in; return whether the alarm sounds in it."""
        if not is_bad:
            self.num_bad, self.num_good = 0, self.num_good + 1
            self.is_on = self.is_on and self.num_good < needed
            return False
        if not self.num_bad and not self.is_on:
            self.since = step
        self.num_bad, self.num_good = self.num_bad + 1, 0
        self.is_on = self.is_on or self.num_bad >= needed
        return self.is_on


class Alarms:
    """Judges the lines of a run one after the other."""

    def __init__(self, own: AlarmSettings, *, lineup: Callable[[int], Lineup]) -> None:
        """Judge by `own`; `lineup` says who plays in a step, as the method has it."""
        self._own = own
        self._lineup = lineup
        self._series: dict[tuple[str, str], Series] = {}
        self._spells: dict[tuple[str, str], _Spell] = {}

    def see(self, row: Mapping[str, Any]) -> list[RunAlarm]:
        """Return the alarms that sound in the step of a line, those that have sounded before among them."""
        numbers = {name: float(value) for name, value in row.items() if isinstance(value, int | float)}
        found: list[RunAlarm] = []
        for family, player in self._played(row):
            about = f"{player} as {_ROLES[family]}" if family else "the run"
            series = self._series.setdefault((family, about), Series(about, family))
            series.lines.append(numbers)
            found += [
                alarm
                for rule in RULES
                if rule.is_of_run == (not family) and (alarm := self._judge(rule, series)) is not None
            ]
        return found

    def _played(self, row: Mapping[str, Any]) -> list[tuple[str, str]]:
        lineup = self._lineup(row["step"])
        players = {"draft": lineup.drafters[0], "challenge": lineup.challenger}
        families = [family for family in players if f"{family}/tokens_mean" in row]
        return [*((family, players[family] or "the base") for family in families), ("", "")]

    def _judge(self, rule: Rule, series: Series) -> RunAlarm | None:
        mode: AlarmMode = getattr(self._own, rule.name)
        judged = rule.judge(series, self._own) if mode != "off" else None
        if judged is None:
            return None
        step = int(series.lines[-1]["step"])
        spell = self._spells.setdefault((rule.name, series.about), _Spell())
        if not spell.see(judged.is_bad, step, needed=getattr(self._own, rule.steps)):
            return None
        says = rule.says.format(cap=f"rollout.max_{series.family}_tokens")
        return RunAlarm(
            name=rule.name.replace("_", "-"),
            step=step,
            since=spell.since,
            about=series.about,
            mode=mode,
            message=f"{judged.metric} is {judged.value:.3g} (limit {judged.threshold:.3g}): {says}",
            metric=judged.metric,
            value=judged.value,
            threshold=judged.threshold,
            is_broken=rule.breaks and spell.since > series.lines[0]["step"],
        )
