"""An engine of this process behind an event loop: one thread owns it, and the loop hears once a step of all that came of it."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import NamedTuple

from agon.errors import AgonError, EngineError
from agon.match.exchange import Turn
from agon.records import Request
from agon.rollout.stepping import Progress, SteppingEngine
from agon.rollout.text import TextReader
from agon.serve.pieces import PieceMaker
from agon.serve.records import EndedStage, Job, Piece

_PAUSE_S = 0.025
# Reading and sending a piece takes some 0.1 ms, in which the engine does not go on: with many that read, pieces get longer.
_PAUSE_FOR_EACH_S = 0.001
# How long Python lets a thread run while another waits for its turn; 5 ms by default, which the engine would wait after every tensor
# operation while the loop is busy.
_SWITCH_S = 0.0002
_NO_KEY = -1
# A step of the engine takes a second at most, unless it hangs.
_MOST_CLOSING_S = 10.0


class EngineBackend:
    """Sample turns through a `SteppingEngine`, as many at once as it takes.

    A thread adds, cancels and steps, and sleeps while nothing is open. Turns that are read as they grow, or whose final text stop strings may
    cut, get a piece at most every `pause_s`, or every `pause_for_each_s` for each of them where they are many; any other gets one, when
    it has ended. An engine that fails does so for good: every open turn raises the reason, and so does every later one.

    Units: seconds.
    """

    def __init__(
        self,
        engine: SteppingEngine,
        reader: TextReader,
        *,
        pause_s: float = _PAUSE_S,
        pause_for_each_s: float = _PAUSE_FOR_EACH_S,
    ) -> None:
        self._engine = engine
        self._context_length = engine.context_length
        self._reader = reader
        self._pause_s = pause_s
        self._pause_for_each_s = pause_for_each_s
        self._commands: SimpleQueue[_Command | None] = SimpleQueue()
        self._open: set[_Open] = set()
        self._end_reason: str | None = "the engine has not been started"
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_ended = asyncio.Event()
        # Of the thread alone.
        self._sampled: dict[int, _Open] = {}

    @property
    def context_length(self) -> int:
        """Most tokens that prompt and completion may have together."""
        return self._context_length

    @property
    def num_open(self) -> int:
        """Turns that are being sampled."""
        return len(self._open)

    async def start(self) -> None:
        """Start the thread."""
        assert self._thread is None, "an engine is started once"
        self._loop, self._end_reason = asyncio.get_running_loop(), None
        # A daemon: a step that never returns must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="agon-engine", daemon=True)
        self._thread.start()

    async def sample(self, turn: Turn, job: Job) -> AsyncGenerator[Piece]:
        """Yield the turn's completion piece by piece; closing the generator cancels the request before the engine's next step.

        Raises:
            EngineError: the request does not fit, or the engine failed or is closed.
        """
        self.check_alive()
        may_stop = bool(job.stop) and job.is_final(turn.role)
        is_told = may_stop or job.is_read_as_it_grows(turn.role)
        maker = PieceMaker(self._reader, pause_s=self._pause_s, has_ends=may_stop) if is_told else None
        sampled = _Open(turn.request, maker)
        self._open.add(sampled)
        self._commands.put(_Command(sampled, is_cancel=False))
        has_ended = False
        try:
            while not has_ended:
                piece = await sampled.take()
                has_ended = piece.ended is not None
                yield piece
        finally:
            self._open.discard(sampled)
            if not has_ended:
                sampled.is_given_up = True
                self._commands.put(_Command(sampled, is_cancel=True))

    def check_alive(self) -> None:
        """Return if turns can be sampled.

        Raises:
            EngineError: the engine failed, or is closed, or was not started.
        """
        if self._end_reason is not None:
            raise EngineError(self._end_reason)

    async def close(self) -> None:
        """Give up what is open, close the engine and wait until its thread has ended, unless its step does not come back."""
        if self._thread is None:
            self._engine.close()
            return
        self._end("the server has closed its engine")
        self._commands.put(None)
        try:
            async with asyncio.timeout(_MOST_CLOSING_S):
                await self._has_ended.wait()
        except TimeoutError:
            return
        self._thread.join()

    def _end(self, reason: str) -> None:
        """Let every open turn raise the reason, and every later one. The first reason counts."""
        if self._end_reason is None:
            self._end_reason = reason
        for sampled in self._open:
            sampled.tell(EngineError(reason))

    def _deliver(self, news: list[_News]) -> None:
        for sampled, item in news:
            sampled.tell(item)

    # What follows runs in the thread.

    def _run(self) -> None:
        with _quick_switches():
            for work in (self._serve, self._engine.close):
                try:
                    work()
                except BaseException as error:  # a thread that ended unseen would leave every client waiting
                    self._call(self._end, _reason_in(error))
        self._call(self._has_ended.set)

    def _call(self, function: Callable[..., None], *arguments: str) -> None:
        assert self._loop is not None, "the thread runs after the start"
        # A loop that is closed has nobody left to be told.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def _serve(self) -> None:
        assert self._loop is not None, "the thread runs after the start"
        news: list[_News] = []
        while self._obey(news):
            told = self._engine.step()
            now = time.perf_counter()
            pause_s = self._pause_for_each_s * sum(sampled.is_told for sampled in self._sampled.values())
            for progress in told:
                self._read(progress, news, now=now, pause_s=pause_s)
            if news:
                self._loop.call_soon_threadsafe(self._deliver, news)
                news = []

    def _obey(self, news: list[_News]) -> bool:
        """Carry out the commands that wait; without open requests wait for one. False: end."""
        while True:
            try:
                command = self._commands.get(block=not self._sampled and not news)
            except Empty:
                return True
            if command is None:
                return False
            sampled = command.sampled
            if command.is_cancel:
                if self._sampled.pop(sampled.key, None) is not None:
                    self._engine.cancel(sampled.key)
            elif not sampled.is_given_up:
                try:
                    sampled.key = self._engine.add(sampled.request)
                    self._sampled[sampled.key] = sampled
                except EngineError as error:
                    news.append(_News(sampled, error))

    def _read(self, progress: Progress, news: list[_News], *, now: float, pause_s: float) -> None:
        sampled = self._sampled.get(progress.key)
        if sampled is None:
            return
        if progress.completion is not None:
            del self._sampled[progress.key]
        try:
            piece = sampled.piece(progress, now, pause_s)
        except EngineError as error:
            news.append(_News(sampled, error))
        else:
            if piece is not None:
                news.append(_News(sampled, piece))


class _Open:
    """A turn that is being sampled. The loop takes what the thread tells; `key` is the thread's. `is_told`: piece by piece."""

    def __init__(self, request: Request, maker: PieceMaker | None) -> None:
        self.request = request
        self.key = _NO_KEY
        self.is_given_up = False
        self.is_told = maker is not None
        self._maker = maker
        self._started = time.perf_counter()
        self._items: deque[Piece | EngineError] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def piece(self, progress: Progress, now: float, pause_s: float) -> Piece | None:
        """Return the piece that it is time for, if any. The next one then waits `pause_s` at least."""
        maker, completion = self._maker, progress.completion
        if completion is None:
            if maker is None:
                return None
            return maker.grow(progress.token_ids, progress.logprobs, now, least_pause_s=pause_s)
        if maker is None:
            piece = Piece(completion.text, completion.token_ids, completion.logprobs)
        else:
            piece = maker.end(progress.token_ids, progress.logprobs, completion)
        seconds = now - self._started
        return piece._replace(
            ended=EndedStage(completion, len(self.request.prompt_ids), completion.num_tokens, seconds)
        )

    def tell(self, item: Piece | EngineError) -> None:
        """Let the loop have an item."""
        self._items.append(item)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def take(self) -> Piece:
        """Wait for the next piece."""
        while not self._items:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        item = self._items.popleft()
        if isinstance(item, EngineError):
            raise item
        return item


class _Command(NamedTuple):
    """What the loop wants of the thread."""

    sampled: _Open
    is_cancel: bool


class _News(NamedTuple):
    """What the thread has for the loop."""

    sampled: _Open
    item: Piece | EngineError


@contextmanager
def _quick_switches() -> Generator[None]:
    """Let threads of this process wait less for each other."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _reason_in(error: BaseException) -> str:
    return str(error) if isinstance(error, AgonError) else f"the engine failed: {type(error).__name__}: {error}"
