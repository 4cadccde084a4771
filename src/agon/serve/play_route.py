"""The routes that play: a request in, the events of its job out, as one answer or as a stream."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Protocol

from agon.serve.asgi import ClientGone, Receive, Scope, Send, send_json
from agon.serve.body import read_json
from agon.serve.cascade import play_job
from agon.serve.connection import Connection
from agon.serve.errors import SHUTTING_DOWN, RequestError, request_error_of
from agon.serve.order import Order
from agon.serve.records import Event, StageBegan, StageEnded
from agon.serve.request_log import LogEntry
from agon.serve.service import Service
from agon.serve.sse import Stream
from agon.serve.tally import Tally

_TOO_LATE = "deadline_exceeded"


class Telling(Protocol):
    """How one job is told to its client."""

    def answer(self, tally: Tally) -> dict[str, Any]:
        """Return the whole answer."""
        ...

    def opening(self) -> list[dict[str, Any]]:
        """Return the chunks with which a stream begins."""
        ...

    def chunks(self, event: Event, tally: Tally) -> list[dict[str, Any]]:
        """Return the chunks that tell of an event, of which the tally has been told."""
        ...

    def closing(self, tally: Tally) -> list[dict[str, Any]]:
        """Return the chunks with which a stream ends."""
        ...


class Wire(Protocol):
    """What differs between chats and completions."""

    async def order(self, tree: Mapping[str, Any], service: Service) -> Order:
        """Read a request.

        Raises:
            RequestError: it cannot be played.
        """
        ...

    def telling(self, order: Order, service: Service) -> Telling:
        """Return how its job is to be told."""
        ...


class PlayRoute:
    """An ASGI application that answers the requests of one route."""

    def __init__(self, service: Service, wire: Wire, route: str) -> None:
        self._service = service
        self._wire = wire
        self._route = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. The answer of one that is given up, for whatever reason, takes nothing more from the engine.

        Raises:
            RequestError: it is refused, or its time is over.
            ClientGone: the client left.
            AgonError: what samples failed.
        """
        entry: LogEntry = scope["agon"]
        entry.route = self._route
        stream = Stream(send)
        try:
            async with self._deadline():
                answer = await self._play(scope, receive, stream, entry)
        except Exception as error:
            if stream.has_begun and not isinstance(error, ClientGone):
                await stream.fail(request_error_of(error))
            raise
        if answer is None:
            await stream.end()
        else:
            await send_json(send, 200, answer)

    @asynccontextmanager
    async def _deadline(self) -> AsyncGenerator[None]:
        seconds = self._service.limits.timeout_s
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            raise RequestError(
                f"the answer was not there within {seconds:g} s, this server's limit for a request: ask for fewer tokens, or "
                "start it with a larger --timeout",
                status=504,
                code=_TOO_LATE,
            ) from None

    async def _play(self, scope: Scope, receive: Receive, stream: Stream, entry: LogEntry) -> dict[str, Any] | None:
        """Return the answer, or None if it was streamed."""
        service = self._service
        service.require_alive()
        tree = await read_json(scope, receive, max_bytes=service.limits.max_body_bytes)
        # A long text may wait for others to be read, and nobody reads one whose client has left.
        async with self._connected(receive, stream):
            order = await self._wire.order(tree, service)
            _require_streamable(scope, order)
            entry.model = order.model
            telling, tally = self._wire.telling(order, service), Tally(order)
            try:
                await self._play_in_turn(
                    order, entry, tally, telling=telling, stream=stream if order.job.wants_text else None
                )
            finally:
                entry.num_prompt_tokens, entry.num_completion_tokens = tally.num_tokens
        return None if order.job.wants_text else telling.answer(tally)

    async def _play_in_turn(
        self, order: Order, entry: LogEntry, tally: Tally, *, telling: Telling, stream: Stream | None
    ) -> None:
        """Wait for the client's turn, play, and stream if that was asked for."""
        service, waits_since = self._service, time.perf_counter()
        async with service.admission.admit(entry.client, order.job.samples):
            service.metrics.queue_seconds.observe(time.perf_counter() - waits_since)
            if stream is not None:
                stream.hold(telling.opening())
            async with aclosing(play_job(service.backend, order.job, service.check)) as events:
                async for event in events:
                    tally.take(event)
                    if isinstance(event, StageEnded):
                        service.metrics.add_stage(event.role, event.ended)
                    if stream is not None:
                        await _tell(stream, event, telling.chunks(event, tally))
        if stream is not None:
            await stream.write(telling.closing(tally))

    @asynccontextmanager
    async def _connected(self, receive: Receive, stream: Stream) -> AsyncGenerator[None]:
        """Give up when the client leaves or the server ends, and count why."""
        service = self._service
        tick_s = service.limits.keepalive_s

        async def tick() -> None:
            await stream.keep_alive(idle_s=tick_s / 2)

        connection = Connection(receive, tick=tick, tick_s=tick_s)
        service.connections.add(connection)
        try:
            async with connection:
                yield
        except ClientGone:
            service.metrics.cancelled.labels("client").inc()
            raise
        except RequestError as error:
            if error.code == SHUTTING_DOWN:
                service.metrics.cancelled.labels("shutdown").inc()
            raise
        except asyncio.CancelledError:
            service.metrics.cancelled.labels("deadline").inc()
            raise
        finally:
            service.connections.discard(connection)


async def _tell(stream: Stream, event: Event, chunks: list[dict[str, Any]]) -> None:
    # That a stage was asked for is no sign that it will be answered.
    if isinstance(event, StageBegan) and not stream.has_begun:
        stream.hold(chunks)
    else:
        await stream.write(chunks)


def _require_streamable(scope: Scope, order: Order) -> None:
    """Refuse what cannot be framed: uvicorn sends an answer of unknown length in chunks, which HTTP/1.0 takes for its text."""
    if order.job.wants_text and scope["http_version"] == "1.0":
        raise RequestError(
            "stream is true, but the request came by HTTP/1.0, which knows no streams: ask by HTTP/1.1 (nginx: "
            "proxy_http_version 1.1), or for the whole answer",
            param="stream",
        )
