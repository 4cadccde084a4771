"""The border of engines that are driven step by step: requests join and leave at any time, and are told of as they grow."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from agon.records import Completion, Request


class Progress(NamedTuple):
    """What a request has been given since it was last told of. `completion` comes with its last tokens. Units: nats."""

    key: int
    token_ids: list[int]
    logprobs: list[float]
    completion: Completion | None


class SteppingEngine(Protocol):
    """Samples for whoever asks, while others are sampled for. One thread at a time."""

    @property
    def context_length(self) -> int:
        """Most tokens that prompt and completion may have together."""
        ...

    @property
    def num_open(self) -> int:
        """Requests that wait or run."""
        ...

    def add(self, request: Request) -> int:
        """Queue a request and return the key under which it is told of.

        Raises:
            EngineError: an unknown adapter, or a request that does not fit the context.
        """
        ...

    def cancel(self, key: int) -> None:
        """Give a request up, waiting or running: it is not told of again. One that has ended stays as it is."""
        ...

    def step(self) -> list[Progress]:
        """Sample up to one token or so for each request that runs, and return what came of it; nothing where none is open.

        Raises:
            EngineError: the engine failed; every open request is lost.
            DivergedError: logits that are not finite; every open request is lost.
        """
        ...

    def close(self) -> None:
        """Give back what the engine holds; open requests are lost."""
        ...
