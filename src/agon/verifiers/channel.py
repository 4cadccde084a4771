"""Plain values over a socket, between the judge and its test process."""

from __future__ import annotations

import selectors
import socket
import struct
import time
from typing import Any

from agon.verifiers.sandbox.plain import decode, encode

_MAX_BYTES = 256 * 2**20
_LENGTH = struct.Struct("<I")
_MAX_PIECE = 65_536


def send(channel: socket.socket, message: Any) -> None:
    """Send one plain value.

    Raises:
        NotPlainError: it is none.
        ConnectionError: the other side is gone.
    """
    data = encode(message, max_bytes=_MAX_BYTES)
    channel.sendall(_LENGTH.pack(len(data)) + data)


def receive(channel: socket.socket, timeout_s: float | None) -> Any:
    """Return the next plain value, () when the other side is gone, None when none came in time.

    Rebuilding the value may take as long again, of processor time.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    size = _take(channel, _LENGTH.size, deadline)
    data = _take(channel, _LENGTH.unpack(size)[0], deadline) if size else size
    if not data:
        return () if data is not None else None
    try:
        return decode(data, deadline=None if timeout_s is None else time.thread_time() + timeout_s)
    except TimeoutError:
        return None


def _take(channel: socket.socket, count: int, deadline: float | None) -> bytes | None:
    data = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(channel, selectors.EVENT_READ)
        while len(data) < count:
            if deadline is not None and not selector.select(max(deadline - time.monotonic(), 0)):
                return None
            try:
                piece = channel.recv(min(count - len(data), _MAX_PIECE))
            except ConnectionError:
                return b""
            if not piece:
                return b""
            data += piece
    return bytes(data)
