"""Tell during training when a pair starts to copy, or to disagree with everything, as the alarms of the evaluation define it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict

from agon.config import AlarmMode, AlarmSettings
from agon.evaluation.alarms import Alarm, always_disagreeing, copying
from agon.evaluation.exchanged import exchanged
from agon.methods.exchange import challenge_of
from agon.records import Attempt, Direction, Lineup, Match, Prompt
from agon.train.alarms import RunAlarm

EVERY = 10
"""Steps of one drafter and one challenger after which their matches are looked at, and forgotten."""

_Players = tuple[str | None, str | None]
_Step = tuple[int, list[list[Match]]]


class PairWatch:
    """Collects what became of the matches of each pair of players, and tells of what is wrong with them.

    What the alarms compare with is the answer that the challenger gave to another draft of the same problem: it shows how often the
    same wrong answer comes up, or a right draft is followed by a wrong answer, without that draft having been read. Matches are not
    kept over a resume: the ten steps then begin anew.
    """

    def __init__(self, own: AlarmSettings, *, seed: int) -> None:
        """Warn or stop as `own` says; `seed` is that of the intervals' bootstrap."""
        self._modes: dict[str, AlarmMode] = {
            "copying": own.copying,
            "always-disagreeing": own.always_disagreeing,
        }
        self._seed = seed
        self._seen: dict[_Players, list[_Step]] = {}

    def see(self, step: int, lineup: Lineup, matches: Sequence[Sequence[Match]]) -> list[RunAlarm]:
        """Take a step's matches in, and return the alarms there is reason for, if it is time to look."""
        if not lineup.has_challenge or lineup.reads != "own" or set(self._modes.values()) == {"off"}:
            return []
        players = (lineup.drafters[0], lineup.challenger)
        steps = self._seen.setdefault(players, [])
        steps.append((step, [[_slim(match) for match in of_problem] for of_problem in matches if len(of_problem) > 1]))
        if len(steps) < EVERY:
            return []
        del self._seen[players]
        groups = [of_problem for _, of_step in steps for of_problem in of_step]
        found = pair_alarms(groups, "a-b" if lineup.challenger == "B" else "b-a", seed=self._seed)
        return [
            RunAlarm(alarm.name, step, since=steps[0][0], about=_named(players), mode=mode, **_said(alarm))
            for alarm in found
            if (mode := self._modes[alarm.name]) != "off"
        ]


def pair_alarms(groups: Sequence[Sequence[Match]], direction: Direction, *, seed: int) -> list[Alarm]:
    """Return the alarms that a training's matches (problem by problem) give reason for."""
    beside = [[challenge_of(match) for match in (*of_problem[1:], of_problem[0])] for of_problem in groups]
    found = exchanged(groups, beside, seed=seed)
    alarms = (copying(direction, found), always_disagreeing(direction, found))
    return [alarm for alarm in alarms if alarm is not None]


def _named(players: _Players) -> str:
    drafter, challenger = ("the base" if player is None else player for player in players)
    return f"{challenger} after {drafter}"


class _Said(TypedDict):
    message: str
    metric: str
    value: float
    threshold: float


def _said(alarm: Alarm) -> _Said:
    values = alarm.values
    if alarm.name == "copying":
        what, metric, rate = "wrong answers that it reads about are repeated", "match/copy_rate", values["copy"]
    else:
        what, metric, rate = "right drafts are followed by a wrong answer", "match/regression", values["regression"]
    message = (
        f"{what} in {rate:.0%} of matches (lower limit {values['low']:.0%}), by {values['blind']:.0%} of its answers to other "
        "drafts of the same problems"
    )
    return _Said(message=message, metric=metric, value=rate, threshold=values["threshold"])


def _slim(match: Match) -> Match:
    """Leave out the tokens, which would fill the memory."""
    drafts = tuple(_slim_attempt(draft) for draft in match.drafts)
    return replace(match, drafts=drafts, challenge=_slim_attempt(challenge_of(match)))


def _slim_attempt(attempt: Attempt) -> Attempt:
    completion = replace(attempt.completion, token_ids=(), logprobs=(), text="")
    return replace(attempt, prompt=Prompt((), ""), completion=completion)
