"""Run requests through a vLLM server to their ends; new ones may join while others run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agon.errors import EngineError
from agon.records import Request, StopReason
from agon.rollout.joining import RUNNING_PER_JOIN
from agon.rollout.vllm_server import Piece, VllmServer

# Unfinished requests that an error names.
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Job:
    """A request with its number and the route to its adapter."""

    index: int
    request: Request
    route: Any | None


@dataclass(slots=True)
class Sampled:
    """What a request has been given so far. Units: nats."""

    job: Job
    token_ids: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])
    stop_reason: StopReason | None = None

    def take(self, piece: Piece) -> bool:
        """Add a piece of this request, and say whether it was the last.

        Raises:
            EngineError: the request ended for another reason than a stop token or its cap.
        """
        self.token_ids += piece.token_ids
        # A greedy choice is certain; vLLM tells how likely it was at temperature 1.
        self.logprobs += piece.logprobs if self.job.request.temperature else [0.0] * len(piece.token_ids)
        if piece.stop_reason is None:
            return False
        if piece.stop_reason not in ("stop", "length"):
            raise EngineError(f"vLLM ended request {self.job.index} with {piece.stop_reason!r}: look at its log")
        self.stop_reason = "stop" if piece.stop_reason == "stop" else "length"
        return True


OnEnd = Callable[[Sampled], Iterable[Job]]


def run(server: VllmServer, jobs: Iterable[Job], on_end: OnEnd) -> None:
    """Sample every job to its end. `on_end` is told of each as it ends, and returns jobs that join the batch, a few at a time.

    vLLM is given no more than it has rows for: from a queue of its own it would let in one as another ends, so that most steps would
    read a prompt and run without a CUDA graph. Whatever ends this, also an error in `on_end`, leaves the server without requests.

    Raises:
        EngineError: a request ended for another reason than a stop token or its cap, or none gets any further; those are named.
    """
    running: dict[str, Sampled] = {}
    waiting = deque(jobs)
    # Of those that wait, how many were there from the start: once all of them have room, waiting makes their group no larger.
    num_first = len(waiting)
    try:
        while waiting or running:
            room = server.options.max_rows - len(running)
            group = min(room, len(waiting))
            if group * RUNNING_PER_JOIN >= len(running) or 0 < num_first <= room:
                _add(server, [waiting.popleft() for _ in range(group)], running)
                num_first = max(0, num_first - group)
            for piece in _step(server, running):
                sampled = running[piece.request_id]
                if sampled.take(piece):
                    del running[piece.request_id]
                    waiting += on_end(sampled)
    finally:
        if running:
            server.abort(running)
        server.settle()


def score_prompt(server: VllmServer, prompt_ids: Sequence[int], route: Any | None) -> list[float]:
    """Return the engine's logprob of each prompt token but the first, computed anew. Units: nats."""
    request = Request(tuple(prompt_ids), None, max_tokens=1, seed=0)
    request_id = server.add(request, route, wants_prompt=True)
    logprobs: list[float] = []
    is_running = True
    while is_running:
        for piece in server.step():
            logprobs += piece.prompt_logprobs
            is_running = is_running and (piece.request_id != request_id or piece.stop_reason is None)
    server.settle()
    if len(logprobs) != len(prompt_ids) - 1:
        raise EngineError(f"vLLM scored {len(logprobs)} of {len(prompt_ids) - 1} prompt tokens: it cannot be checked")
    return logprobs


def _step(server: VllmServer, running: Mapping[str, Sampled]) -> list[Piece]:
    try:
        return server.step()
    except EngineError as error:
        stuck = [
            f"{one.job.index} at {len(one.token_ids)} of {one.job.request.max_tokens} tokens after a prompt of "
            f"{len(one.job.request.prompt_ids)}"
            for one in running.values()
        ]
        more = f" and {len(stuck) - _SHOWN} more" if len(stuck) > _SHOWN else ""
        raise EngineError(f"{error}; unfinished: request {', '.join(stuck[:_SHOWN])}{more}") from error


def _add(server: VllmServer, jobs: Iterable[Job], running: dict[str, Sampled]) -> None:
    for job in jobs:
        running[server.add(job.request, job.route)] = Sampled(job)
