"""What stands before HTTP: bounds on how long and how large a request may be until a route sees it, and on who never reads an answer."""

from __future__ import annotations

import asyncio
from types import MethodType
from typing import Any, NamedTuple, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from agon.serve.asgi import App, Receive, Scope, Send, to_bytes
from agon.serve.errors import RequestError

_MAX_HEAD_BYTES = 64 * 1024
# A body in chunks of a byte each comes with five more around it.
_MOST_BYTES_OF_ONE = 6
_HEAD_TIMEOUT_S = 30.0
_LEAST_BYTES_PER_S = 16 * 1024
_UNREAD_TIMEOUT_S = 60.0
# A connection that is closed while more comes in is reset, upon which its client may lose the answer.
_FAREWELL_S = 1.0


class Bounds(NamedTuple):
    """What a connection may cost. A message is a body with its chunks' framing; `head_s` and `message_s` are for each to arrive in,
    `unread_s` for a client to read what was sent. Units: bytes, seconds.
    """

    max_message_bytes: int
    message_s: float
    max_head_bytes: int = _MAX_HEAD_BYTES
    head_s: float = _HEAD_TIMEOUT_S
    unread_s: float = _UNREAD_TIMEOUT_S


def bounds_for(max_body_bytes: int) -> Bounds:
    """Return the bounds that let a body of so many bytes through."""
    return Bounds(
        max_message_bytes=_MOST_BYTES_OF_ONE * max_body_bytes + _MAX_HEAD_BYTES,
        message_s=_HEAD_TIMEOUT_S + max_body_bytes / _LEAST_BYTES_PER_S,
    )


class Guard(asyncio.Protocol):
    """One connection to uvicorn's HTTP protocol, closed when it goes beyond the bounds.

    Uvicorn bounds neither headers nor the time that a request takes to arrive, and lets a client keep for ever what it does not read:
    without a key anybody could take all connections, all memory, or the event loop. Of several requests sent at once it tells the newest
    alone that the client has left.
    """

    def __init__(self, inner: HttpToolsProtocol, bounds: Bounds) -> None:
        self._inner = inner
        self._app = cast("App", inner.app)
        self._answered: set[RequestResponseCycle] = set()
        self._bounds = bounds
        self._loop = asyncio.get_running_loop()
        self._num_bytes = 0
        self._is_refused = False
        self._arrival: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection, and wait for its first request."""
        self._transport = cast("asyncio.Transport", transport)
        self._inner.app = self._answer
        self._inner.connection_made(self._transport)
        self._wait(self._bounds.head_s)

    def data_received(self, data: bytes) -> None:
        """Pass on what came, and see how much of one request it was."""
        if self._is_refused:
            return
        before = self._place
        self._inner.data_received(data)
        if self._transport.is_closing():
            return
        if self._place == before:
            self._num_bytes += len(data)
        else:
            # What of these bytes belongs to which request only the parser knows; they are few.
            self._num_bytes = 0
            self._stop_waiting()
        is_in_head, bounds = self._place[0], self._bounds
        if self._num_bytes > (bounds.max_head_bytes if is_in_head else bounds.max_message_bytes):
            self._refuse(is_in_head=is_in_head)
        elif not self._is_arriving:
            self._stop_waiting()
        elif self._arrival is None:
            self._wait(bounds.head_s if is_in_head else bounds.message_s)

    def eof_received(self) -> None:
        """Let the connection be closed."""

    def pause_writing(self) -> None:
        """Take note that the client does not read as fast as is written."""
        self._inner.pause_writing()
        self._unread = self._loop.call_later(self._bounds.unread_s, self._transport.abort)

    def resume_writing(self) -> None:
        """Take note that the client has read."""
        if self._unread is not None:
            self._unread.cancel()
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everybody that the client has left."""
        self._stop_waiting()
        if self._unread is not None:
            self._unread.cancel()
        self._inner.connection_lost(exc)
        for cycle in self._answered:
            cycle.disconnected = True
            cycle.message_event.set()
        # Else the two would hold each other until the garbage collector looks.
        self._inner.app = self._app

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        cycle = cast("RequestResponseCycle", cast("MethodType", receive).__self__)
        self._answered.add(cycle)
        try:
            await self._app(scope, receive, send)
        finally:
            self._answered.discard(cycle)

    @property
    def _place(self) -> tuple[bool, RequestResponseCycle | None]:
        """Whether a head is on its way, and the newest request whose head is there."""
        cycle = self._cycle
        # Each head gets a scope of its own when it begins, and its request when it ends.
        return self._scope is not None and (cycle is None or cycle.scope is not self._scope), cycle

    @property
    def _is_arriving(self) -> bool:
        """Whether nothing can be answered until more has come."""
        cycle = self._cycle
        return cycle is None or cycle.more_body or cycle.response_complete

    @property
    def _cycle(self) -> RequestResponseCycle | None:
        return cast("RequestResponseCycle | None", self._inner.cycle)

    @property
    def _scope(self) -> Any:
        return self._inner.scope

    def _wait(self, seconds: float) -> None:
        self._arrival = self._loop.call_later(seconds, self._transport.abort)

    def _stop_waiting(self) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None

    def _refuse(self, *, is_in_head: bool) -> None:
        cycle = self._cycle
        if is_in_head and (cycle is None or cycle.response_complete):
            told = RequestError(
                f"the request's head has more than {self._bounds.max_head_bytes} bytes: send fewer or shorter headers"
            )
            content = to_bytes(told.to_json())
            head = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\nconnection: close\r\n"
            self._transport.write(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(content), content))
            self._transport.write_eof()
            self._is_refused = True
            self._stop_waiting()
            self._wait(_FAREWELL_S)
        else:
            # Words here would stand in the middle of an answer, or before one that was asked for earlier.
            self._transport.abort()


def guarded(bounds: Bounds) -> type[asyncio.Protocol]:
    """Return what makes guarded connections, as uvicorn calls it: a class of protocols."""

    def make(**arguments: Any) -> Guard:
        return Guard(HttpToolsProtocol(**arguments), bounds)

    return cast("type[asyncio.Protocol]", make)
