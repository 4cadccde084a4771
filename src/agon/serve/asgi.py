"""The few words of ASGI that the server speaks itself."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Header = tuple[bytes, bytes]


class ClientGone(Exception):
    """The client has left: nobody is there to be answered."""


def header_values(scope: Scope, name: bytes) -> list[bytes]:
    """Return the values of a header, as often as it was sent; `name` in lower case."""
    return [value for key, value in scope["headers"] if key == name]


def to_bytes(tree: Any) -> bytes:
    """Write JSON as short as it can be."""
    return json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


async def send_json(send: Send, status: int, tree: Any, *, headers: Iterable[Header] = ()) -> None:
    """Answer a request with JSON."""
    content = to_bytes(tree)
    own = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
        (b"x-content-type-options", b"nosniff"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": [*own, *headers]})
    await send({"type": "http.response.body", "body": content})
