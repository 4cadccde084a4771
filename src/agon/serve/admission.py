"""Who may play: a bounded number of matches at once, a bounded queue before them, and turns between clients."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from agon.errors import AgonError, ConfigError

_SHARE_OF_NEWEST = 0.1
_LEAST_RETRY_S = 1.0
_FIRST_GUESS_S = 5.0


class BusyError(AgonError):
    """The queue is full. `retry_after_s` is when what waits will have begun, as recent matches tell."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ClosingError(AgonError):
    """The server ends and takes nothing more."""


@dataclass(eq=False, slots=True)
class _Waiter:
    client: str
    weight: int
    turn: asyncio.Future[None] = field(repr=False)


class Admission:
    """Let at most `max_running` matches be played at once and at most `max_queue` requests wait, in turns between clients.

    A request of several matches weighs as many. It waits until there is room for all of it, and nobody overtakes it meanwhile. Where the
    queue is full, the client that has most in it gives way to one with less: its newest request is refused. One event loop.

    Raises:
        ConfigError: a bound that lets nobody play.
    """

    def __init__(self, *, max_running: int, max_queue: int, clock: Callable[[], float] = time.monotonic) -> None:
        if max_running < 1 or max_queue < 0:
            raise ConfigError(
                f"max_running is {max_running} and max_queue {max_queue}: let 1 match or more run, and 0 or more requests wait"
            )
        self.num_running = 0
        self.num_waiting = 0
        self._max_running = max_running
        self._max_queue = max_queue
        self._clock = clock
        # In the order of turns: who was served goes to the end.
        self._queues: dict[str, deque[_Waiter]] = {}
        self._is_closing = False
        self._idle: asyncio.Future[None] | None = None
        self._mean_seconds = _FIRST_GUESS_S
        self._has_seen_any = False

    @asynccontextmanager
    async def admit(self, client: str, weight: int = 1) -> AsyncGenerator[None]:
        """Wait for the client's turn and hold `weight` matches' room while the block runs.

        Raises:
            BusyError: the queue is full, or this request gave way to another client's.
            ClosingError: the server ends.
            ConfigError: more matches in one request than may run at once.
        """
        await self._enter(client, weight)
        started = self._clock()
        try:
            yield
        finally:
            self._leave(weight)
        self._learn(self._clock() - started)

    async def drain(self) -> None:
        """Refuse what waits and what comes, and return when nothing runs."""
        self._is_closing = True
        for queue in self._queues.values():
            for waiter in queue:
                _refuse(waiter, _closing())
        self._queues.clear()
        self.num_waiting = 0
        if self.num_running:
            if self._idle is None:
                self._idle = asyncio.get_running_loop().create_future()
            # Several may wait, and one of them may be cancelled.
            await asyncio.shield(self._idle)

    def retry_after_s(self) -> float:
        """Estimate when what waits will have begun. Units: seconds."""
        waiting = sum(waiter.weight for queue in self._queues.values() for waiter in queue)
        return max(_LEAST_RETRY_S, self._mean_seconds * (waiting + 1) / self._max_running)

    async def _enter(self, client: str, weight: int) -> None:
        if weight > self._max_running:
            raise ConfigError(
                f"{weight} matches were asked for at once, but this server plays at most {self._max_running}: ask for fewer"
            )
        if self._is_closing:
            raise _closing()
        if not self._queues and self.num_running + weight <= self._max_running:
            self.num_running += weight
            return
        self._make_room(client)
        waiter = _Waiter(client, weight, asyncio.get_running_loop().create_future())
        self._queues.setdefault(client, deque()).append(waiter)
        self.num_waiting += 1
        try:
            await waiter.turn
        except BaseException:
            self._withdraw(waiter)
            raise

    def _make_room(self, client: str) -> None:
        """Make place for one more in the queue."""
        if self.num_waiting < self._max_queue:
            return
        own = len(self._queues.get(client, ()))
        greedy = max(self._queues, key=lambda name: len(self._queues[name]), default=client)
        error = BusyError(
            f"{self.num_running} matches run and {self.num_waiting} requests wait, which is all this server takes: try again later",
            self.retry_after_s(),
        )
        if len(self._queues.get(greedy, ())) <= own + 1:
            raise error
        newest = self._queues[greedy][-1]
        self._remove(newest)
        _refuse(newest, error)

    def _withdraw(self, waiter: _Waiter) -> None:
        """Let go of a waiter that was cancelled or refused, perhaps after its turn had come."""
        if waiter in self._queues.get(waiter.client, ()):
            self._remove(waiter)
            # It may have been what the others had to wait for.
            self._call_next()
        elif not waiter.turn.cancelled() and waiter.turn.exception() is None:
            self._leave(waiter.weight)

    def _remove(self, waiter: _Waiter) -> None:
        queue = self._queues[waiter.client]
        queue.remove(waiter)
        if not queue:
            del self._queues[waiter.client]
        self.num_waiting -= 1

    def _leave(self, weight: int) -> None:
        self.num_running -= weight
        self._call_next()
        if not self.num_running and self._idle is not None:
            self._idle.set_result(None)
            self._idle = None

    def _call_next(self) -> None:
        while self._queues:
            client, queue = next(iter(self._queues.items()))
            waiter = queue[0]
            if waiter.turn.cancelled():
                self._remove(waiter)
                continue
            if self.num_running + waiter.weight > self._max_running:
                return
            self._remove(waiter)
            if client in self._queues:
                self._queues[client] = self._queues.pop(client)
            self.num_running += waiter.weight
            waiter.turn.set_result(None)

    def _learn(self, seconds: float) -> None:
        share = _SHARE_OF_NEWEST if self._has_seen_any else 1.0
        self._mean_seconds += share * (seconds - self._mean_seconds)
        self._has_seen_any = True


def _refuse(waiter: _Waiter, error: AgonError) -> None:
    if not waiter.turn.done():
        waiter.turn.set_exception(error)


def _closing() -> ClosingError:
    return ClosingError("the server is shutting down: send the request to another, or again when it is back")
