"""Who reads whose drafts, and what of them there is to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agon.errors import DataError
from agon.match.borders import Summarizer
from agon.prompts.summary import NOTHING_READ
from agon.records import Completion, Lineup, Problem, Reading, Summary

Place = tuple[Problem, int]
"""A problem and the number of one of its matches."""


class Seats(NamedTuple):
    """Where one call of `play` plays.

    `matches` are the places it returns. `drafting` are those that draft: the matches, and after them the places whose drafts are only
    read. `reads[i]` is the number in `drafting` of the place whose drafts the challenge of match i reads; None: it reads none.
    """

    matches: list[Place]
    drafting: list[Place]
    reads: list[int | None]


def take_seats(problems: Sequence[Problem], samples: int, reads: Reading, *, among: Sequence[Problem]) -> Seats:
    """Say who drafts and who reads whom. A placebo's partner is taken from `among`, and drafts here too if it is not in `problems`.

    Raises:
        DataError: a placebo is to be read, but there is no other problem.
    """
    matches = [(problem, sample) for problem in problems for sample in range(samples)]
    own: list[int | None] = list(range(len(matches)))
    match reads:
        case "own":
            return Seats(matches, matches, own)
        case "shared":
            return Seats(matches, matches, [number - sample for number, (_, sample) in enumerate(matches)])
        case "empty" | "hidden":
            return Seats(matches, matches, [None] * len(matches))
        case "placebo":
            return _placebo_seats(matches, placebo_partners(among))


def placebo_partners(problems: Sequence[Problem]) -> dict[str, Problem]:
    """Return, by the id of each problem, the one whose draft stands in for its own: the next by id, and after the last the first.

    Ids are hashes of the content, so that the pairing is as good as random, and the same in whatever order or batches the problems
    are played.

    Raises:
        DataError: there is only one problem.
    """
    ordered = [problem for _, problem in sorted({problem.id: problem for problem in problems}.items())]
    if len(ordered) < 2:
        raise DataError(
            f"a placebo draft is that of another problem, but there are {len(ordered)}: give two problems or more"
        )
    return {problem.id: other for problem, other in zip(ordered, [*ordered[1:], ordered[0]], strict=True)}


def _placebo_seats(matches: list[Place], partners: Mapping[str, Problem]) -> Seats:
    drafting = list(matches)
    numbers = {(problem.id, sample): number for number, (problem, sample) in enumerate(matches)}
    reads: list[int | None] = []
    for problem, sample in matches:
        partner = partners[problem.id]
        number = numbers.setdefault((partner.id, sample), len(drafting))
        if number == len(drafting):
            drafting.append((partner, sample))
        reads.append(number)
    return Seats(matches, drafting, reads)


class Reader:
    """What challengers are shown of drafts. Each draft is summarised once, however many read it."""

    def __init__(self, summarizer: Summarizer, seats: Seats, lineup: Lineup, *, max_tokens: int) -> None:
        self._summarizer = summarizer
        self._seats = seats
        self._lineup = lineup
        self._max_tokens = max_tokens
        self._made: dict[int, tuple[Summary, ...]] = {}

    def needs(self, match: int) -> set[int]:
        """Return the numbers of the drafts that must have ended before the match's challenge can be asked for."""
        place = self._seats.reads[match]
        drafts = set() if place is None else set(self.drafts_of(place))
        # Whether there is a challenge depends on the match's own drafts, whatever it would read.
        return drafts if self._lineup.doubt is None else drafts | set(self.drafts_of(match))

    def drafts_of(self, place: int) -> range:
        """Return the numbers of a place's drafts, counted over all that draft."""
        count = len(self._lineup.drafters)
        return range(place * count, (place + 1) * count)

    def for_challenge(self, match: int, drafts: Mapping[int, Completion]) -> tuple[Summary, ...]:
        """Return what the match's challenger is shown of the last layer's `drafts`, by number. Nothing where they are hidden."""
        place = self._seats.reads[match]
        if place is not None:
            if place not in self._made:
                self._made[place] = self.of_place(place, drafts)
            return self._made[place]
        return () if self._lineup.reads == "hidden" else (NOTHING_READ,) * len(self._lineup.drafters)

    def of_place(self, place: int, drafts: Mapping[int, Completion]) -> tuple[Summary, ...]:
        """Summarise a place's drafts, given by number."""
        problem, _ = self._seats.drafting[place]
        return tuple(
            self._summarizer.summarize(
                problem, drafts[number], max_tokens=self._max_tokens, shows_answer=self._lineup.shows_answer
            )
            for number in self.drafts_of(place)
        )
