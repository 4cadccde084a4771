"""Who may ask: whoever has a key, on every route but /health, and under a name of this machine alone."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
from collections.abc import Iterable, Sequence

from agon.serve.asgi import App, Receive, Scope, Send, header_values
from agon.serve.errors import RequestError

OPEN_PATH = "/health"
_ANY = "*"


class KeyCheck:
    """Let through who sends one of the keys, as `Bearer`, or as the password of `Basic`, which browsers ask their user for.

    Default deny: what is not exactly the open path needs a key, whether there is such a route or not. Without keys everybody may ask. With
    several, each is a client of its own in the queue.
    """

    def __init__(self, app: App, keys: Sequence[str]) -> None:
        self._app = app
        self._digests = [_digest(key.encode()) for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "http" and self._digests and scope["path"] != OPEN_PATH:
            number = self._number(header_values(scope, b"authorization"))
            if number is None:
                raise RequestError(
                    "this server needs a key: send it as `Authorization: Bearer KEY`",
                    status=401,
                    code="invalid_api_key",
                )
            if len(self._digests) > 1:
                scope["agon"].client = f"key {number}"
        await self._app(scope, receive, send)

    def _number(self, sent: Sequence[bytes]) -> int | None:
        """Which key was sent; all are compared, so that the time taken does not tell how much of one was right."""
        digest = _digest(_secret(sent[0]) if len(sent) == 1 else b"")
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        return matches.index(True) if any(matches) else None


class HostCheck:
    """Let through requests for an address, for this machine's own name or for an allowed one.

    Another site's page can have its own name point here (DNS rebinding), and would then read the answers; its name gives it away.
    """

    def __init__(self, app: App, allowed: Iterable[str]) -> None:
        self._app = app
        self._allowed = {"localhost", *(name.lower().rstrip(".") for name in allowed)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "http" and _ANY not in self._allowed:
            hosts = header_values(scope, b"host")
            # HTTP/1.0 has none, and no browser speaks it.
            if len(hosts) > 1 or (hosts and not self._is_known(hosts[0])):
                raise RequestError(
                    "the request is for a host name that this server does not know: start it with --allow-host NAME",
                    status=421,
                    code="unknown_host",
                )
        await self._app(scope, receive, send)

    def _is_known(self, host: bytes) -> bool:
        name = _without_port(host.decode("latin-1")).lower().rstrip(".")
        if name in self._allowed:
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True


def read_keys(text: str) -> tuple[str, ...]:
    """Return the keys in a text, separated by commas or lines."""
    return tuple(key for part in text.replace("\n", ",").split(",") if (key := part.strip()))


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _digest(secret: bytes) -> bytes:
    # Of one length, whatever was sent.
    return hashlib.sha256(secret).digest()


def _secret(header: bytes) -> bytes:
    scheme, _, rest = header.strip().partition(b" ")
    if scheme.lower() == b"bearer":
        return rest.strip()
    if scheme.lower() == b"basic":
        try:
            return base64.b64decode(rest.strip(), validate=True).partition(b":")[2]
        except binascii.Error:
            return b""
    return b""
