"""Run requests through a vLLM server to their ends; new ones may join while others run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agon.errors import EngineError
from agon.records import Request
from agon.rollout.vllm_server import VllmServer


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
    stop_reason: str | None = None


# Jobs join when there is one for so many that run: a step that also reads prompts has no CUDA graph, and takes several times as long.
_RUNNING_PER_JOIN = 16

OnEnd = Callable[[Sampled], Iterable[Job]]


def run(server: VllmServer, jobs: Iterable[Job], on_end: OnEnd) -> None:
    """Sample every job to its end. `on_end` is told of each as it ends, and returns jobs that join the batch, a few at a time.

    Whatever ends this, also an error in `on_end`, leaves the server without requests.

    Raises:
        EngineError: a request ended for another reason than a stop token or its cap.
    """
    running: dict[str, Sampled] = {}
    waiting = list(jobs)
    try:
        while waiting or running:
            if len(waiting) * _RUNNING_PER_JOIN >= len(running) and waiting:
                _add(server, waiting, running)
                waiting = []
            for piece in server.step():
                sampled = running[piece.request_id]
                sampled.token_ids += piece.token_ids
                sampled.logprobs += piece.logprobs
                if piece.stop_reason is not None:
                    del running[piece.request_id]
                    waiting += on_end(_ended(sampled, piece.stop_reason))
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


def _add(server: VllmServer, jobs: Iterable[Job], running: dict[str, Sampled]) -> None:
    for job in jobs:
        running[server.add(job.request, job.route)] = Sampled(job)


def _ended(sampled: Sampled, reason: str) -> Sampled:
    if reason not in ("stop", "length"):
        raise EngineError(f"vLLM ended request {sampled.job.index} with {reason!r}: look at its log")
    sampled.stop_reason = reason
    return sampled
