"""The border every rollout engine stands behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, runtime_checkable

from agon.records import Completion, Request

OnFinish = Callable[[int, Completion], None]
Grow = Callable[[int, Completion], Iterable[Request]]


class Engine(Protocol):
    """Samples completions. It holds any number of named adapters (current, frozen, past) and the bare base (None)."""

    @property
    def context_length(self) -> int:
        """Most tokens that prompt and completion may have together."""
        ...

    def generate(self, requests: Sequence[Request], on_finish: OnFinish | None = None) -> list[Completion]:
        """Sample one completion for each request, in the order of the requests.

        `on_finish(index, completion)` is called as each ends, so that checking can start while others still run.

        Raises:
            EngineError: an unknown adapter, or a request that does not fit the context.
        """
        ...

    def close(self) -> None:
        """Give back what the engine holds."""
        ...


@runtime_checkable
class GrowingEngine(Engine, Protocol):
    """An engine whose batches may grow while they run, so that a challenge need not wait for the last draft."""

    @property
    def can_grow(self) -> bool:
        """Whether they may, with the adapters served as they are."""
        ...

    def grow(self, requests: Sequence[Request], grow: Grow, *, adapters: Sequence[str | None]) -> list[Completion]:
        """Sample the requests and all that `grow(index, completion)` returns as each ends; `adapters` are those they may ask for.

        An added request's index is the number of requests before it. Completions come in the order of the indexes.

        Raises:
            EngineError: as `generate`.
        """
        ...
