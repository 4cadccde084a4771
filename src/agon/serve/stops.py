"""Stop strings: a text ends before the first of them, and what may be the beginning of one is held back until it is not."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import NamedTuple

from agon.errors import ConfigError
from agon.match.exchange import Turn
from agon.records import Completion
from agon.serve.records import EndedStage, Piece
from agon.serve.words import num_words


async def until_stop(pieces: AsyncGenerator[Piece], stops: Sequence[str], turn: Turn) -> AsyncGenerator[Piece]:
    """Yield the pieces of a turn up to the first stop string; the turn has then ended, with a completion that is cut there.

    Its tokens count as sampled whether or not they are left. Where the backend names no tokens, words and signs are counted for them.
    """
    strings, started = StopStrings(stops), time.perf_counter()
    kept: list[Piece] = []
    num_sampled, received = 0, list[str]()
    async for piece in pieces:
        num_sampled += len(piece.token_ids)
        received.append(piece.text)
        passed = strings.add(piece)
        if piece.ended is not None:
            passed = _joined([passed, strings.finish()])
        kept.append(passed)
        ended = piece.ended
        if strings.has_stopped:
            own = ended or _interrupted(turn, num_sampled, "".join(received), seconds=time.perf_counter() - started)
            left = _joined(kept)
            completion = replace(
                own.completion, token_ids=left.token_ids, logprobs=left.logprobs, text=left.text, stop_reason="stop"
            )
            ended = own._replace(completion=completion)
        if ended is not None or passed.text or passed.token_ids:
            yield passed._replace(ended=ended)
        if ended is not None:
            return


class _Token(NamedTuple):
    """`start` is where its text begins."""

    start: int
    token_id: int
    logprob: float


class StopStrings:
    """Pass a text on, piece by piece, up to the first stop string: of those in the text, the one that begins first.

    That is the same however the text is cut into pieces. A token goes with the text if at least one character of it does.
    `has_stopped` says that a stop string was found: nothing more is passed on, and sampling can end.

    Raises:
        ConfigError: a stop string is empty.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if not all(stops):
            raise ConfigError("a stop string is empty: every text would end at once; leave it out")
        self.has_stopped = False
        self._stops = stops
        self._held = ""
        self._num_passed = 0
        self._num_received = 0
        self._last_end = 0
        self._tokens: deque[_Token] = deque()

    def add(self, piece: Piece) -> Piece:
        """Take a piece of the text, and return what can be passed on."""
        self._queue_tokens(piece)
        if not self.has_stopped:
            self._held += piece.text
            found, opened = self._find(), self._find_opened()
            # An opened one that began earlier, if it is completed, comes first.
            self.has_stopped = found is not None and found <= opened
            return self._pass(opened if found is None or opened < found else found)
        return Piece("")

    def finish(self) -> Piece:
        """Return what was held back, now that the text has ended: all of it, or what stands before a stop string."""
        if self.has_stopped:
            return Piece("")
        found = self._find()
        self.has_stopped = found is not None
        passed = self._pass(len(self._held) if found is None else found)
        if self.has_stopped:
            return passed
        # Tokens without text, such as the stop token.
        rest = list(self._tokens)
        self._tokens.clear()
        return _joined(
            [passed, Piece("", tuple(token.token_id for token in rest), tuple(token.logprob for token in rest))]
        )

    def _queue_tokens(self, piece: Piece) -> None:
        start = self._num_received
        self._num_received += len(piece.text)
        if piece.token_ends:
            for token_id, logprob, end in zip(piece.token_ids, piece.logprobs, piece.token_ends, strict=True):
                self._tokens.append(_Token(self._last_end, token_id, logprob))
                self._last_end = end
        else:
            self._tokens += [
                _Token(start, token_id, logprob)
                for token_id, logprob in zip(piece.token_ids, piece.logprobs, strict=True)
            ]
            self._last_end = self._num_received

    def _find(self) -> int | None:
        """Where the first stop string begins in what is held."""
        return min((at for stop in self._stops if (at := self._held.find(stop)) >= 0), default=None)

    def _find_opened(self) -> int:
        """Where what may be the beginning of a stop string begins, at the end of what is held; the end, if nothing may."""
        held = self._held
        first = len(held)
        for stop in self._stops:
            at = held.find(stop[0], max(0, len(held) - len(stop) + 1))
            while 0 <= at < first:
                if stop.startswith(held[at:]):
                    first = at
                at = held.find(stop[0], at + 1)
        return first

    def _pass(self, count: int) -> Piece:
        text, self._held = self._held[:count], self._held[count:]
        self._num_passed += count
        ids, logprobs = list[int](), list[float]()
        while self._tokens and self._tokens[0].start < self._num_passed:
            token = self._tokens.popleft()
            ids.append(token.token_id)
            logprobs.append(token.logprob)
        return Piece(text, tuple(ids), tuple(logprobs))


def _joined(pieces: Sequence[Piece]) -> Piece:
    return Piece(
        "".join(piece.text for piece in pieces),
        tuple(token for piece in pieces for token in piece.token_ids),
        tuple(logprob for piece in pieces for logprob in piece.logprobs),
    )


def _interrupted(turn: Turn, num_sampled: int, text: str, *, seconds: float) -> EndedStage:
    """A turn that will not come to its own end. Nobody has told the adapter's version: it is 0."""
    return EndedStage(
        Completion((), (), "", "stop", turn.request.adapter, adapter_version=0),
        num_prompt_tokens=len(turn.request.prompt_ids) or num_words(turn.prompt.text),
        num_completion_tokens=num_sampled or num_words(text),
        seconds=seconds,
        is_estimated=not num_sampled,
    )
