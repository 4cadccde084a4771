"""The border every rollout engine stands behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from agon.records import Completion, Request

OnFinish = Callable[[int, Completion], None]


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
