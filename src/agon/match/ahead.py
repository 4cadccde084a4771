"""Summaries and prompts of challenges, made while other drafts are still being sampled."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import Executor, Future

from agon.match.asking import Asker
from agon.match.reading import Reader, Seats
from agon.records import Completion, Prompt, Summary

Shown = tuple[Summary, ...]


class Waiting:
    """Knows which challenges wait for which drafts. `at_once` are the matches whose challenges wait for none."""

    def __init__(self, reader: Reader, *, num_matches: int) -> None:
        self._missing = {match: reader.needs(match) for match in range(num_matches)}
        self._readers: defaultdict[int, list[int]] = defaultdict(list)
        for match, needed in self._missing.items():
            for number in needed:
                self._readers[number].append(match)
        self.at_once = [match for match, needed in self._missing.items() if not needed]

    def end(self, number: int) -> list[int]:
        """Take note of a draft that has ended, and return the matches whose challenges waited for it alone."""
        for match in self._readers[number]:
            self._missing[match].remove(number)
        return [match for match in self._readers[number] if not self._missing[match]]

    def is_waiting(self, match: int) -> bool:
        """Tell whether a match's challenge still waits for a draft."""
        return bool(self._missing[match])


class ReadAhead:
    """Makes each challenge's prompt as soon as the drafts that it reads have ended, so that the engine does not wait for it."""

    def __init__(self, reader: Reader, asker: Asker, seats: Seats, *, threads: Executor) -> None:
        self._reader = reader
        self._asker = asker
        self._seats = seats
        self._threads = threads
        self._ended: dict[int, Completion] = {}
        self._waiting = Waiting(reader, num_matches=len(seats.matches))
        self._made: dict[int, Future[tuple[Shown, Prompt]]] = {}
        for match in self._waiting.at_once:
            self._begin(match)

    def end(self, number: int, completion: Completion) -> None:
        """Take note of a draft that has ended."""
        self._ended[number] = completion
        for match in self._waiting.end(number):
            self._begin(match)

    def finish(self) -> tuple[dict[int, Shown], list[Prompt]]:
        """Return what each match's challenger is shown, by match, and their prompts. Every draft must have ended."""
        made = [self._made[match].result() for match in range(len(self._seats.matches))]
        return {match: shown for match, (shown, _) in enumerate(made)}, [prompt for _, prompt in made]

    def _begin(self, match: int) -> None:
        self._made[match] = self._threads.submit(self._make, match)

    def _make(self, match: int) -> tuple[Shown, Prompt]:
        shown = self._reader.for_challenge(match, self._ended)
        return shown, self._asker.challenge_prompt(self._seats.matches[match][0], shown)
