"""From what is offered and what samples to a service with its doors: who is let in, and how much of them."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from agon.serve.admission import Admission
from agon.serve.backend import Backend
from agon.serve.checking import checked_in
from agon.serve.models import Offer
from agon.serve.service import Limits, Service
from agon.verifiers.base import Verifier

# They wait for checking processes most of the time.
_CHECKING_THREADS = 16


@dataclass(frozen=True, slots=True)
class Doors:
    """Who is let in. `max_running` None: as many matches at once as suit what samples."""

    limits: Limits = field(default_factory=Limits)
    keys: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    max_running: int | None = None
    max_queue: int = 256


class Opened(NamedTuple):
    """A service, and what is to be said of it before it is used."""

    service: Service
    notes: tuple[str, ...]


@contextmanager
def open_service(
    offer: Offer, backend: Backend, verifier: Verifier, doors: Doors, *, max_running: int
) -> Generator[Service]:
    """Give a service whose answers are checked in threads; the verifier is closed at the end. `max_running` is what suits the backend.

    Raises:
        ConfigError: a bound that lets nobody play.
    """
    with ThreadPoolExecutor(_CHECKING_THREADS, thread_name_prefix="agon-check") as threads:
        try:
            yield Service(
                offer=offer,
                backend=backend,
                check=checked_in(threads, verifier),
                admission=Admission(max_running=doors.max_running or max_running, max_queue=doors.max_queue),
                limits=doors.limits,
                keys=doors.keys,
                hosts=doors.hosts,
            )
        finally:
            # What is still being checked has nobody left to be told.
            threads.shutdown(wait=False, cancel_futures=True)
            verifier.close()
