"""The border of whatever samples for the server: an engine of this process, two endpoints, a script."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from agon.errors import EngineError
from agon.match.exchange import Turn
from agon.serve.records import Job, Piece


class EndpointError(EngineError):
    """An endpoint that gave no usable answer. `status` is what a server in front of it answers, `retry_after_s` how long it asked to wait."""

    def __init__(self, message: str, *, status: int = 502, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s


class Backend(Protocol):
    """Samples turns of many jobs at once, on one event loop."""

    @property
    def context_length(self) -> int | None:
        """Most tokens that prompt and completion may have together; None where nobody knows."""
        ...

    async def start(self) -> None:
        """Get ready to sample.

        Raises:
            AgonError: it cannot.
        """
        ...

    def sample(self, turn: Turn, job: Job) -> AsyncGenerator[Piece]:
        """Yield the turn's completion piece by piece; the last piece has `ended`. Closing the generator, at any moment, gives the turn up.

        Where `job` does not read the turn as it grows there may be one piece.

        Raises:
            EngineError: the request does not fit, or the engine or endpoint failed.
        """
        ...

    def check_alive(self) -> None:
        """Return if it can sample.

        Raises:
            EngineError: it has failed for good, with the reason.
        """
        ...

    async def close(self) -> None:
        """Give up what runs and give back what is held."""
        ...
