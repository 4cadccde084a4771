"""Say during training when a pair starts to copy, or to disagree with everything, as the alarms of the evaluation define it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from agon.evaluation.alarms import Alarm, AlarmName, always_disagreeing, copying
from agon.evaluation.exchanged import exchanged
from agon.methods.exchange import challenge_of
from agon.records import Attempt, Direction, Lineup, Match, Prompt

EVERY = 10
"""Steps of one drafter and one challenger after which their matches are looked at, and forgotten."""


class PairWatch:
    """Collects what became of the matches of each pair of players, and says each alarm of theirs once.

    What the alarms compare with is the answer that the challenger gave to another draft of the same problem: it shows how often the
    same wrong answer comes up, or a right draft is followed by a wrong answer, without that draft having been read.
    """

    def __init__(self, say: Callable[[str], None], *, seed: int) -> None:
        """Warn through `say`; `seed` is that of the intervals' bootstrap."""
        self._say = say
        self._seed = seed
        self._seen: dict[tuple[str | None, str | None], list[list[list[Match]]]] = {}
        self._told: set[tuple[str | None, str | None, AlarmName]] = set()

    def see(self, lineup: Lineup, matches: Sequence[Sequence[Match]]) -> None:
        """Take a step's matches in, and warn if it is time and there is reason to."""
        if not lineup.has_challenge or lineup.reads != "own":
            return
        players = (lineup.drafters[0], lineup.challenger)
        steps = self._seen.setdefault(players, [])
        steps.append([[_slim(match) for match in of_problem] for of_problem in matches if len(of_problem) > 1])
        if len(steps) < EVERY:
            return
        groups = [of_problem for of_step in self._seen.pop(players) for of_problem in of_step]
        for alarm in pair_alarms(groups, "a-b" if lineup.challenger == "B" else "b-a", seed=self._seed):
            if (*players, alarm.name) not in self._told:
                self._told.add((*players, alarm.name))
                self._say(f"warning: {alarm.name}, the last {EVERY} steps of {_named(players)}: {_said(alarm)}")


def pair_alarms(groups: Sequence[Sequence[Match]], direction: Direction, *, seed: int) -> list[Alarm]:
    """Return the alarms that a training's matches (problem by problem) give reason for."""
    beside = [[challenge_of(match) for match in (*of_problem[1:], of_problem[0])] for of_problem in groups]
    found = exchanged(groups, beside, seed=seed)
    alarms = (copying(direction, found), always_disagreeing(direction, found))
    return [alarm for alarm in alarms if alarm is not None]


def _named(players: tuple[str | None, str | None]) -> str:
    drafter, challenger = ("the base" if player is None else player for player in players)
    return f"{challenger} after {drafter}"


def _said(alarm: Alarm) -> str:
    values = alarm.values
    if alarm.name == "copying":
        what, rate = "wrong answers that it reads about are repeated", values["copy"]
    else:
        what, rate = "right drafts are followed by a wrong answer", values["regression"]
    return (
        f"{what} in {rate:.0%} of matches (lower limit {values['low']:.0%}), by {values['blind']:.0%} of its answers to other "
        "drafts of the same problems"
    )


def _slim(match: Match) -> Match:
    """Leave out the tokens, which would fill the memory."""
    drafts = tuple(_slim_attempt(draft) for draft in match.drafts)
    return replace(match, drafts=drafts, challenge=_slim_attempt(challenge_of(match)))


def _slim_attempt(attempt: Attempt) -> Attempt:
    completion = replace(attempt.completion, token_ids=(), logprobs=(), text="")
    return replace(attempt, prompt=Prompt((), ""), completion=completion)
