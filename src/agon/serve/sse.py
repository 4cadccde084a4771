"""A stream of server-sent events: chunks as they come, comments while there are none, an error if one ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from agon.serve.asgi import Send, to_bytes
from agon.serve.errors import RequestError

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    # Proxies that know it pass each event on at once.
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]
_FAREWELL_S = 1.0


class Stream:
    """Writes one stream. Units: seconds."""

    def __init__(self, send: Send) -> None:
        self.has_begun = False
        self._send = send
        self._last = 0.0
        self._held: list[dict[str, Any]] = []
        self._may_begin = False

    def hold(self, chunks: Sequence[dict[str, Any]]) -> None:
        """Keep chunks that say nothing yet: until a stream begins, a failure can still be told by its status."""
        assert not self.has_begun, "what is held goes before everything else"
        self._held += chunks
        self._may_begin = True

    async def write(self, chunks: Sequence[dict[str, Any]]) -> None:
        """Send chunks, an event each; the first ones, after those that were held, open the stream."""
        if not self.has_begun:
            self.has_begun = True
            chunks, self._held = [*self._held, *chunks], []
            await self._send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        if chunks:
            await self._pass(b"".join(b"data: %b\n\n" % to_bytes(chunk) for chunk in chunks))

    async def keep_alive(self, *, idle_s: float) -> None:
        """Begin what may begin, and send a comment, which clients pass over, if nothing was sent for as long: proxies close what is silent."""
        if self._may_begin and not self.has_begun:
            await self.write([])
        if self.has_begun and asyncio.get_running_loop().time() - self._last >= idle_s:
            await self._pass(b": drafting\n\n")

    async def end(self) -> None:
        """Say that this was all."""
        await self._pass(b"data: [DONE]\n\n", is_last=True)

    async def fail(self, error: RequestError) -> None:
        """End by an error instead: without `[DONE]`, so that nobody takes what came for the whole answer."""
        try:
            async with asyncio.timeout(_FAREWELL_S):
                await self._pass(b"data: %b\n\n" % to_bytes(error.to_json()), is_last=True)
        except TimeoutError:
            # It does not read. What is not completed here is closed by the server.
            return

    async def _pass(self, content: bytes, *, is_last: bool = False) -> None:
        self._last = asyncio.get_running_loop().time()
        await self._send({"type": "http.response.body", "body": content, "more_body": not is_last})
