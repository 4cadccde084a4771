"""The connections to one endpoint."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx

from agon import __version__
from agon.serve.endpoints import Endpoint

_MAX_IDLE = 128
_KEEPALIVE_S = 30.0


class Clients:
    """HTTP clients with a connection each, lent to one request at a time and kept for the next.

    One client with many connections would look at every one of them, several times, for each request.
    """

    def __init__(self, endpoint: Endpoint, timeout: httpx.Timeout) -> None:
        self._timeout = timeout
        self._headers = {"User-Agent": f"agon/{__version__}", "Accept-Encoding": "identity"}
        if endpoint.key is not None:
            self._headers["Authorization"] = f"Bearer {endpoint.key}"
        # A proxy for the network cannot reach what runs on this machine.
        self._trust_env = not endpoint.is_local
        self._tls = httpx.create_ssl_context(trust_env=self._trust_env)
        self._all: set[httpx.AsyncClient] = set()
        self._idle: list[httpx.AsyncClient] = []

    @asynccontextmanager
    async def borrow(self) -> AsyncGenerator[httpx.AsyncClient]:
        """Give a client for one request."""
        client = self._idle.pop() if self._idle else self._create()
        try:
            yield client
        finally:
            if len(self._idle) < _MAX_IDLE and client in self._all:
                self._idle.append(client)
            else:
                self._all.discard(client)
                await client.aclose()

    async def close(self) -> None:
        """Close every connection; those in use break off."""
        clients = list(self._all)
        self._all.clear()
        self._idle.clear()
        for client in clients:
            await client.aclose()

    def _create(self) -> httpx.AsyncClient:
        client = httpx.AsyncClient(
            headers=self._headers,
            timeout=self._timeout,
            limits=httpx.Limits(keepalive_expiry=_KEEPALIVE_S),
            # What one client's answer set must not go out with another's request.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            trust_env=self._trust_env,
            verify=self._tls,
        )
        self._all.add(client)
        return client
