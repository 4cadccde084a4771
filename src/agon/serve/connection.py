"""A block of work that ends when the client leaves, when its time is over, or when the server has to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from agon.serve.asgi import ClientGone, Receive


class Connection:
    """A context in which work is done for a client: `give_up` cancels what the block is waiting for, and the block raises the reason.

    It gives up by itself when the client leaves. `tick` is awaited every `tick_s` for as long as the block runs.

    Raises:
        ClientGone: the client left.
    """

    def __init__(
        self, receive: Receive, *, tick: Callable[[], Awaitable[None]] | None = None, tick_s: float | None = None
    ) -> None:
        self._receive = receive
        self._tick = tick
        self._tick_s = tick_s
        self._reason: Exception | None = None
        self._is_open = False

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None, "a request is answered in a task"
        self._task = task
        self._cancelled_before = task.cancelling()
        self._is_open = True
        self._watcher = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        self._watcher.cancel()
        # Its cancellation holds its frames, and they hold this: a cycle, which every request would leave to the garbage collector.
        del self._watcher
        if self._reason is not None and self._task.uncancel() <= self._cancelled_before:
            # Whatever the block raised, nobody is there any more to be told of it.
            raise self._reason from error

    def give_up(self, reason: Exception) -> None:
        """End the block by raising `reason` from it; the first reason counts."""
        if self._is_open and self._reason is None:
            self._reason = reason
            self._task.cancel()

    async def _watch(self) -> None:
        try:
            await self._until_gone()
        except Exception as error:  # nobody else would hear of it, and the block would wait for ever
            self.give_up(error)
        else:
            self.give_up(ClientGone())

    async def _until_gone(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._tick_s):
                    message = await self._receive()
            except TimeoutError:
                if self._tick is not None:
                    await self._tick()
                continue
            if message["type"] == "http.disconnect":
                return
