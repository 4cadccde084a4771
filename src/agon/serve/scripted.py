"""A backend that says what it is told to say: for tests of the server, and for measuring what the server itself costs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence

from agon.errors import EngineError
from agon.match.exchange import Turn
from agon.records import Completion, StopReason
from agon.rollout.checks import check_request
from agon.serve.records import EndedStage, Job, Piece

Script = Callable[[Turn], str | Sequence[str | Exception]]

_STOP_ID = 0


class ScriptedBackend:
    """Answer turns from a function `(turn) -> text`, each after `seconds`, a token a character and a stop token at the end.

    Where the job wants text, it comes in `num_pieces` over that time. A script may also return the pieces one by one; an error among them
    is raised in its place. A text that does not fit `max_tokens` is cut and ends by `length`. The counts are for tests: `num_open` turns
    are being sampled, `most_open` were at once; `num_ended` came to their end, `num_given_up` did not.

    Units: seconds a stage, nats a token, or functions of the turn that return them.
    """

    def __init__(
        self,
        script: Script,
        *,
        seconds: float | Callable[[Turn], float] = 0.0,
        num_pieces: int = 1,
        context_length: int | None = None,
        logprob: float | Callable[[Turn], float] = -0.5,
    ) -> None:
        self.num_open = 0
        self.most_open = 0
        self.num_ended = 0
        self.num_given_up = 0
        self._script = script
        self._seconds = seconds
        self._num_pieces = num_pieces
        self._context_length = context_length
        self._logprob = logprob
        self._failure: str | None = None
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def context_length(self) -> int | None:
        """Most tokens that prompt and completion may have together."""
        return self._context_length

    async def start(self) -> None:
        """Return: there is nothing to get ready."""

    async def sample(self, turn: Turn, job: Job) -> AsyncGenerator[Piece]:
        """Yield what the script says.

        Raises:
            EngineError: the request does not fit, or the backend was made to fail.
        """
        self.check_alive()
        if self._context_length is not None:
            check_request(turn.request, self._context_length)
        self.num_open += 1
        self.most_open = max(self.most_open, self.num_open)
        has_ended, text, started = False, "", time.perf_counter()
        try:
            parts = self._parts(turn, job)
            seconds = self._seconds(turn) if callable(self._seconds) else self._seconds
            for number, part in enumerate(parts, 1):
                # Against the clock: timers are late by up to a millisecond, and many pieces would add that up.
                await self._wait(started + seconds * number / len(parts) - time.perf_counter())
                piece = self._piece(turn, text, part, started=started, is_last=number == len(parts))
                has_ended, text = piece.ended is not None, text + piece.text
                yield piece
                if has_ended:
                    return
        finally:
            self.num_open -= 1
            self.num_ended += has_ended
            self.num_given_up += not has_ended

    def check_alive(self) -> None:
        """Return if it was not made to fail.

        Raises:
            EngineError: with the reason that it was given.
        """
        if self._failure is not None:
            raise EngineError(self._failure)

    def fail(self, reason: str) -> None:
        """Fail for good: every open turn raises the reason, and so does every later one."""
        self._failure = reason
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(EngineError(reason))

    async def close(self) -> None:
        """Return: nothing is held."""

    def _parts(self, turn: Turn, job: Job) -> Sequence[str | Exception]:
        said = self._script(turn)
        if not isinstance(said, str):
            return said or [""]
        size = max(1, -(-len(said) // self._num_pieces) if job.wants_text else len(said))
        return [said[i : i + size] for i in range(0, len(said), size)] or [""]

    def _piece(self, turn: Turn, before: str, part: str | Exception, *, started: float, is_last: bool) -> Piece:
        if isinstance(part, Exception):
            raise part
        room = turn.request.max_tokens - len(before)
        # The last part has the stop token after it.
        is_cut = len(part) + is_last > room
        given = part[:room]
        ids = tuple(map(ord, given))
        if is_last and not is_cut:
            ids = (*ids, _STOP_ID)
        ends = (*range(len(before) + 1, len(before) + len(given) + 1), len(before) + len(given))
        ended = None
        if is_last or is_cut:
            ended = self._ended(turn, before + given, started, stop_reason="length" if is_cut else "stop")
        return Piece(given, ids, (self._logprob_of(turn),) * len(ids), ended, ends[: len(ids)])

    def _ended(self, turn: Turn, text: str, started: float, *, stop_reason: StopReason) -> EndedStage:
        ids = (*map(ord, text), _STOP_ID) if stop_reason == "stop" else tuple(map(ord, text))
        completion = Completion(ids, (self._logprob_of(turn),) * len(ids), text, stop_reason, turn.request.adapter, 0)
        return EndedStage(completion, len(turn.request.prompt_ids), len(ids), time.perf_counter() - started)

    def _logprob_of(self, turn: Turn) -> float:
        return self._logprob(turn) if callable(self._logprob) else self._logprob

    async def _wait(self, seconds: float) -> None:
        self.check_alive()
        loop = asyncio.get_running_loop()
        waiting = loop.create_future()
        timer = loop.call_later(seconds, _wake, waiting)
        self._waiting.add(waiting)
        try:
            await waiting
        finally:
            timer.cancel()
            self._waiting.discard(waiting)


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
