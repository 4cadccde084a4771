"""Matches as turns, for whatever samples one turn after another: an engine whose batch may grow, or a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agon.match.ahead import Waiting
from agon.match.asking import Asked, Asker, Sampling
from agon.match.assemble import Played, Stage, matches_of
from agon.match.borders import Prompter, Summarizer
from agon.match.reading import Reader, Seats, take_seats
from agon.match.voting import is_challenged
from agon.records import AnswerStyle, Completion, Lineup, Match, Problem, Prompt, Request, Role, Summary, Verdict


class Turn(NamedTuple):
    """One completion to be sampled. `place` numbers who drafts, or the match that is challenged; matches draft at their own number."""

    role: Role
    place: int
    problem: Problem
    prompt: Prompt
    request: Request


class Exchange:
    """The matches of one call: all drafts at once, and each challenge as soon as the drafts on which it depends have ended.

    It samples nothing: whoever does asks for `begin()`, tells `end` of each completion, and asks for the turns that this returns. `turns`
    are all that were asked for, in that order; a turn is known by its number there. `shown` is what challengers read, by match. For line-ups
    with one layer of drafts.
    """

    def __init__(self, reader: Reader, asker: Asker, seats: Seats, *, lineup: Lineup, style: AnswerStyle) -> None:
        assert lineup.layers == 1, "several layers are played stage by stage"
        self._reader = reader
        self._asker = asker
        self._seats = seats
        self._lineup = lineup
        self._style: AnswerStyle = style
        self._ended: dict[int, Completion] = {}
        self._challenges: dict[int, int] = {}
        self._waiting = Waiting(reader, num_matches=len(seats.matches))
        self._num_drafts = 0
        self.turns: list[Turn] = []
        self.shown: dict[int, tuple[Summary, ...]] = {}

    def begin(self) -> list[Turn]:
        """Return the drafts, and the challenges that wait for none."""
        places = [place for place in range(len(self._seats.drafting)) for _ in self._lineup.drafters]
        drafts = self._add(self._asker.drafts(self._seats.drafting), places)
        self._num_drafts = len(drafts)
        return drafts + self._challenge(self._waiting.at_once)

    def end(self, number: int, completion: Completion) -> list[Turn]:
        """Take note of a turn's completion, and return the challenges that can be asked for."""
        self._ended[number] = completion
        return self._challenge(self._waiting.end(number)) if number < self._num_drafts else []

    def asked(self) -> tuple[Asked, Asked]:
        """Return the drafts and the challenges asked for so far, each as one stage."""
        return (
            _stage("drafter", self.turns[: self._num_drafts]),
            _stage("challenger", self.turns[self._num_drafts :]),
        )

    def is_over(self, match: int) -> bool:
        """Tell whether all turns of a match have ended, and none is to come."""
        return not self._waiting.is_waiting(match) and all(number in self._ended for number in self.turns_of(match))

    def turns_of(self, match: int) -> list[int]:
        """Return the numbers of a match's turns asked for so far: its drafts, then its challenge."""
        drafts, challenges = self._own(match)
        return drafts + challenges

    def match(self, number: int, verdicts: Mapping[int, Verdict]) -> Match:
        """Return a match that is over, while others may not be, given the verdicts of its turns by number."""
        drafts, challenges = self._own(number)
        shown = {0: self.shown[number]} if number in self.shown else {}
        played = Played(
            [self._judged("drafter", drafts, verdicts)], [], shown, self._judged("challenger", challenges, verdicts)
        )
        (match,) = matches_of(played, [self._seats.matches[number]], lineup=self._lineup, style=self._style)
        return match

    def _challenge(self, matches: Sequence[int]) -> list[Turn]:
        added: list[Turn] = []
        for match in matches:
            drafts = [self._ended[draft] for draft in self._reader.drafts_of(match) if draft in self._ended]
            if is_challenged(drafts, self._lineup, self._style):
                self.shown[match] = self._reader.for_challenge(match, self._ended)
                place = self._seats.matches[match]
                prompt = self._asker.challenge_prompt(place[0], self.shown[match])
                self._challenges[match] = len(self.turns)
                added += self._add(self._asker.challenges([place], [prompt]), [match])
        return added

    def _own(self, match: int) -> tuple[list[int], list[int]]:
        return list(self._reader.drafts_of(match)), [self._challenges[match]] if match in self._challenges else []

    def _judged(self, role: Role, numbers: Sequence[int], verdicts: Mapping[int, Verdict]) -> Stage:
        return Stage(
            _stage(role, [self.turns[number] for number in numbers]),
            [self._ended[number] for number in numbers],
            [verdicts[number] for number in numbers],
        )

    def _add(self, asked: Asked, places: Sequence[int]) -> list[Turn]:
        added = [
            Turn(asked.role, place, problem, prompt, request)
            for place, problem, prompt, request in zip(
                places, asked.problems, asked.prompts, asked.requests, strict=True
            )
        ]
        self.turns += added
        return added


def _stage(role: Role, turns: Sequence[Turn]) -> Asked:
    return Asked(
        role,
        [turn.problem for turn in turns],
        [turn.prompt for turn in turns],
        [turn.request for turn in turns],
    )


def exchange_of(
    problem: Problem,
    lineup: Lineup,
    *,
    prompts: Prompter,
    summarizer: Summarizer,
    style: AnswerStyle,
    samples: int,
    sampling: Sampling,
    seed: int,
    stream: tuple[str | int, ...],
) -> Exchange:
    """Return the exchange of `samples` matches of one problem, which `play` would play alike.

    Raises:
        DataError: the line-up reads another problem's drafts.
    """
    seats = take_seats([problem], samples, lineup.reads, among=[problem])
    asker = Asker(prompts, lineup, sampling, seed=seed, stream=stream)
    reader = Reader(summarizer, seats, lineup, max_tokens=sampling.max_summary_tokens)
    return Exchange(reader, asker, seats, lineup=lineup, style=style)
