"""Two OpenAI-compatible servers as the backend: one drafts, the other challenges, each with its own model. No torch, no GPU."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

import httpx

from agon.match.exchange import Turn
from agon.records import Completion
from agon.serve.backend import EndpointError
from agon.serve.endpoints import ADAPTER_OF, Endpoint
from agon.serve.records import EndedStage, Job, Piece
from agon.serve.remote.incoming import Incoming, SseReader, Usage
from agon.serve.remote.refusals import Unusable
from agon.serve.remote.upstream import TIMEOUT, Upstream
from agon.serve.words import num_words

# After its last event a stream is read to its end, so that the connection can be used again. Most end at once.
_LAST_BYTES_TIMEOUT_S = 0.2
# Many servers read a seed of 32 bits.
_MAX_SEED = 2**31


class RemoteBackend:
    """Samples turns by asking the endpoint that has the turn's place in the line-up. An endpoint that fails may be back in a moment."""

    context_length: int | None = None

    def __init__(
        self, drafter: Endpoint, challenger: Endpoint, *, timeout: httpx.Timeout = TIMEOUT, backoff_s: float = 0.5
    ) -> None:
        self._upstreams = {
            ADAPTER_OF[endpoint.name]: Upstream(endpoint, timeout=timeout, backoff_s=backoff_s)
            for endpoint in (drafter, challenger)
        }

    @property
    def models(self) -> dict[str, str]:
        """The name of each endpoint's model, by its place; known once it has started."""
        return {place: upstream.model for place, upstream in self._upstreams.items()}

    async def start(self) -> None:
        """Ask both endpoints for their models.

        Raises:
            EngineError: one cannot be reached, or does not let us in.
            ConfigError: one has not the model that was named, or several and none was named.
        """
        started = await asyncio.gather(
            *(upstream.start() for upstream in self._upstreams.values()), return_exceptions=True
        )
        for failed in started:
            if failed is not None:
                await self.close()
                raise failed

    async def sample(self, turn: Turn, job: Job) -> AsyncGenerator[Piece]:
        """Yield the completion as it comes in. Closing the generator closes the connection, upon which an endpoint stops sampling.

        Raises:
            EndpointError: the endpoint refused, broke off, or sent what cannot be used.
        """
        adapter = turn.request.adapter
        assert adapter is not None, "two endpoints have no bare base"
        upstream, incoming, began = self._upstreams[adapter], Incoming(), time.perf_counter()
        body = _body(turn, job, upstream.model)
        try:
            async with (
                upstream.chat(body, rng=random.Random(turn.request.seed)) as response,
                aclosing(_read(response, incoming)) as texts,
            ):
                async for text in texts:
                    if text and job.wants_text:
                        yield Piece(text)
            rest, stop_reason = incoming.finish()
        except Unusable as error:
            raise EndpointError(f"the {upstream.endpoint.name}'s endpoint {error}") from None
        text = incoming.text
        completion = Completion((), (), text, stop_reason, adapter, 0)
        usage = incoming.usage
        is_estimated = usage is None or (usage.num_completion_tokens == 0 and text != "")
        counted = _estimate(body, text) if usage is None or is_estimated else usage
        seconds = time.perf_counter() - began
        yield Piece(
            rest if job.wants_text else text, ended=EndedStage(completion, *counted, seconds, is_estimated=is_estimated)
        )

    def check_alive(self) -> None:
        """Return: no failure of an endpoint is for good."""

    async def close(self) -> None:
        """Close every connection."""
        for upstream in self._upstreams.values():
            await upstream.close()


async def _read(response: httpx.Response, incoming: Incoming) -> AsyncGenerator[str]:
    """Yield what each read from the network added to the text.

    Raises:
        Unusable: the stream broke off, or holds what cannot be used.
    """
    events = SseReader()
    data = cast("AsyncGenerator[bytes]", response.aiter_bytes())
    try:
        async with aclosing(data):
            async for received in data:
                yield "".join(incoming.take(event) for event in events.feed(received))
                if incoming.is_done:
                    await _read_to_end(data)
                    return
            yield "".join(incoming.take(event) for event in events.flush())
    except httpx.ReadTimeout:
        raise Unusable("went silent in the middle of its answer") from None
    except (httpx.HTTPError, httpx.StreamError):
        raise Unusable("broke off in the middle of its answer") from None


async def _read_to_end(data: AsyncGenerator[bytes]) -> None:
    try:
        async with asyncio.timeout(_LAST_BYTES_TIMEOUT_S):
            async for _ in data:
                pass
    except (TimeoutError, httpx.HTTPError):
        # The answer is complete; the connection is closed with the response.
        return


def _body(turn: Turn, job: Job, model: str) -> dict[str, Any]:
    request = turn.request
    messages = [{"role": message.role, "content": message.content} for message in job.before]
    body: dict[str, Any] = {
        "model": model,
        "messages": [*messages, {"role": "user", "content": turn.prompt.text}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "seed": request.seed % _MAX_SEED,
    }
    if job.stop and job.is_final(turn.role):
        body["stop"] = list(job.stop)
    return body


def _estimate(body: dict[str, Any], text: str) -> Usage:
    return Usage(sum(num_words(message["content"]) for message in body["messages"]), num_words(text))
