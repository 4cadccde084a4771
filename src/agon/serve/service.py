"""What an application answers with: one for every server, shared by its routes; and how it is opened."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from agon.errors import AgonError
from agon.serve.access import Access, Limits
from agon.serve.admission import Admission
from agon.serve.backend import Backend
from agon.serve.checking import Check, checked_in
from agon.serve.connection import Connection
from agon.serve.context_check import ContextCheck
from agon.serve.errors import RequestError, closing_error
from agon.serve.metrics import Metrics
from agon.serve.models import Offer
from agon.verifiers.base import CHECKING_THREADS, Verifier


@dataclass(slots=True)
class Service:
    """What is offered, what samples, who is let in. `keys` guard it; `hosts` are the names under which it may be reached."""

    offer: Offer
    backend: Backend
    check: Check
    admission: Admission
    limits: Limits = field(default_factory=Limits)
    keys: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    metrics: Metrics = field(init=False)
    context_check: ContextCheck = field(init=False)
    is_closing: bool = field(default=False, init=False)
    connections: set[Connection] = field(default_factory=set[Connection], init=False)

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

    def give_up(self) -> None:
        """End every request that is being answered."""
        self.is_closing = True
        for connection in list(self.connections):
            connection.give_up(closing_error())


class OpenedService(NamedTuple):
    """A service, and what is to be said of it before it is used."""

    service: Service
    notes: tuple[str, ...]


@contextmanager
def open_service(
    offer: Offer, backend: Backend, verifier: Verifier, *, access: Access, max_running: int
) -> Generator[Service]:
    """Give a service whose answers are checked in threads; the verifier is closed at the end. `max_running` is what suits the backend.

    Raises:
        ConfigError: a bound that lets nobody play.
    """
    threads = ThreadPoolExecutor(CHECKING_THREADS, thread_name_prefix="agon-check")
    try:
        yield Service(
            offer=offer,
            backend=backend,
            check=checked_in(threads, verifier),
            admission=Admission(max_running=access.max_running or max_running, max_queue=access.max_queue),
            limits=access.limits,
            keys=access.keys,
            hosts=access.hosts,
        )
    finally:
        # What is still being checked has nobody left to be told, and may hang.
        threads.shutdown(wait=False, cancel_futures=True)
        verifier.close()
