"""What an application answers with: one for every server, shared by its routes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from agon.errors import AgonError
from agon.serve.admission import Admission
from agon.serve.asgi import ClientGone, Peer
from agon.serve.backend import Backend
from agon.serve.checking import Check
from agon.serve.connection import Connection
from agon.serve.context_check import ContextCheck
from agon.serve.errors import RequestError, closing_error
from agon.serve.metrics import Metrics
from agon.serve.models import Offer

DEFAULT_BODY_BYTES = 1024 * 1024
DEFAULT_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request may cost. Units: seconds from its first byte to its last answer."""

    timeout_s: float = DEFAULT_TIMEOUT_S
    max_body_bytes: int = DEFAULT_BODY_BYTES
    keepalive_s: float = 10.0


@dataclass(slots=True)
class Service:
    """What is offered, what samples, who is let in. `keys` guard it; `hosts` are the names under which it may be reached."""

    offer: Offer
    backend: Backend
    check: Check
    admission: Admission
    limits: Limits = Limits()
    keys: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    metrics: Metrics = field(init=False)
    context_check: ContextCheck = field(init=False)
    is_closing: bool = field(default=False, init=False)
    connections: dict[Connection, Peer | None] = field(default_factory=dict[Connection, "Peer | None"], init=False)

    def __post_init__(self) -> None:
        self.metrics = Metrics(self.admission)
        self.context_check = ContextCheck(self.backend.context_length)

    def require_alive(self) -> None:
        """Check that a request can be played.

        Raises:
            RequestError: the server ends, or what samples has failed.
        """
        if self.is_closing:
            raise closing_error()
        try:
            self.backend.check_alive()
        except AgonError as error:
            raise RequestError(f"the server cannot sample: {error}", status=503, code="engine_dead") from None

    async def drain(self, grace_s: float) -> None:
        """Take nothing more, let what runs come to its end within the grace, and give up the rest. Units: seconds."""
        self.is_closing = True
        try:
            async with asyncio.timeout(grace_s):
                await self.admission.drain()
                while self.connections:
                    await asyncio.sleep(0.02)
        except TimeoutError:
            self.give_up()

    def leave(self, peer: Peer) -> None:
        """Give up what is being answered on a connection that is lost."""
        for connection, client in list(self.connections.items()):
            if client == peer:
                connection.give_up(ClientGone())

    def give_up(self) -> None:
        """End every request that is being answered."""
        self.is_closing = True
        for connection in list(self.connections):
            connection.give_up(closing_error())
