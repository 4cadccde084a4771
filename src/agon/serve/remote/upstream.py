"""One endpoint over HTTP: which model it has, and a stream for each request, asked for again where that is safe."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast
from urllib.parse import quote

import httpx

from agon.errors import ConfigError, EngineError
from agon.serve.endpoints import Endpoint
from agon.serve.remote.clients import Clients
from agon.serve.remote.refusals import Refusal, Unusable, failure, read_body, read_refusal

MAX_RETRIES = 3
MAX_WAIT_S = 20.0
TIMEOUT = httpx.Timeout(connect=10.0, read=300.0, write=30.0, pool=None)
"""Seconds to wait for a connection, and for the next bytes: a model that hides its reasoning says nothing for minutes."""

_START_TIMEOUT_S = 20.0
_MAX_LIST_BYTES = 16 * 1024 * 1024
_MAX_SHOWN_MODELS = 8

# What an endpoint may not take, and what is lost without it. Other refusals are told: what a client set is never left out.
_DISPENSABLE = {
    "stream_options": "its tokens are estimated where it does not count them",
    "seed": "its completions differ from call to call",
    "stop": "its texts are cut here",
    "temperature": "it samples at its own",
    "top_p": "it samples at its own",
}
_NEUTRAL = {"temperature": 1.0, "top_p": 1.0}
_RENAMED = {"max_tokens": "max_completion_tokens"}

_log = logging.getLogger(__name__)


class Upstream:
    """One endpoint. `backoff_s` is the first wait before a request is sent again; each further one is twice as long."""

    def __init__(self, endpoint: Endpoint, *, timeout: httpx.Timeout = TIMEOUT, backoff_s: float = 0.5) -> None:
        self.endpoint = endpoint
        self.model = endpoint.model or ""
        self._backoff_s = backoff_s
        self._not_taken: frozenset[str] = frozenset()
        self._clients = Clients(endpoint, timeout)

    async def start(self) -> None:
        """Find the endpoint's model.

        Raises:
            EngineError: the endpoint cannot be reached, or does not let us in.
            ConfigError: it has not that model, or several and none was named.
        """
        listed = await self._get("models")
        models = _names(listed)
        if models is None:
            raise EngineError(f"{self._shown} answers /models with no list of models: is this its base URL?")
        if self.model:
            await self._check_model(models)
        elif len(models) == 1:
            self.model = models[0]
        else:
            raise ConfigError(f"{self._shown} has {_shown(models)}: choose one by --{self.endpoint.name}-model")

    @asynccontextmanager
    async def chat(self, body: Mapping[str, Any], *, rng: random.Random) -> AsyncGenerator[httpx.Response]:
        """Give the stream of a chat completion, open. Leaving closes it; if it was not read to its end, with its connection.

        Raises:
            EndpointError: the endpoint refused, or could not be reached.
        """
        async with self._clients.borrow() as client:
            response = await self._accepted(client, body, rng)
            try:
                yield response
            finally:
                await response.aclose()

    async def close(self) -> None:
        """Close every connection."""
        await self._clients.close()

    async def _accepted(self, client: httpx.AsyncClient, body: Mapping[str, Any], rng: random.Random) -> httpx.Response:
        not_taken, num_retries = self._not_taken, 0
        while True:
            spoken = _spoken(body, not_taken)
            answer = await self._send(client, spoken)
            if isinstance(answer, httpx.Response):
                self._learn(not_taken)
                return answer
            refused = _refused_field(answer, spoken)
            if refused is not None:
                # Not in the next body, so that there is an end to this.
                not_taken |= {refused}
                continue
            backoff = self._backoff_s * 2.0**num_retries * rng.uniform(0.5, 1.5)
            wait = max(backoff, answer.retry_after_s or 0.0)
            if not answer.can_wait or num_retries == MAX_RETRIES or wait > MAX_WAIT_S:
                raise answer.error(self.endpoint)
            num_retries += 1
            await asyncio.sleep(wait)

    async def _send(self, client: httpx.AsyncClient, body: Mapping[str, Any]) -> httpx.Response | Refusal:
        request = client.build_request(
            "POST",
            f"{self.endpoint.base_url}/chat/completions",
            # Escaped, so that half a surrogate pair can be sent.
            content=json.dumps(body).encode("ascii"),
            headers={"Content-Type": "application/json", "Accept": "text/event-stream"},
        )
        try:
            response = await client.send(request, stream=True)
        except httpx.HTTPError as error:
            return failure(error)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.status_code == 200 and kind not in ("application/json", "text/html"):
            return response
        return await read_refusal(response, self.endpoint)

    def _learn(self, not_taken: frozenset[str]) -> None:
        """Remember which fields the endpoint does not take, once it has answered without them."""
        for name in sorted(not_taken - self._not_taken):
            lost = f"is asked for as {_RENAMED[name]}" if name in _RENAMED else f"is not sent: {_DISPENSABLE[name]}"
            _log.warning("the %s's endpoint does not take %s, which %s", self.endpoint.name, name, lost)
        self._not_taken |= not_taken

    @property
    def _shown(self) -> str:
        return f"the {self.endpoint.name}'s endpoint {self.endpoint.base_url}"

    async def _get(self, path: str) -> Any:
        """Return the JSON at a path, None where there is none."""
        try:
            async with asyncio.timeout(_START_TIMEOUT_S), self._clients.borrow() as client:
                request = client.build_request("GET", f"{self.endpoint.base_url}/{path}")
                response = await client.send(request, stream=True)
                if response.status_code != 200:
                    refusal = await read_refusal(response, self.endpoint)
                    raise EngineError(f"{self._shown} {refusal.reason}")
                try:
                    return json.loads(await read_body(response, _MAX_LIST_BYTES))
                finally:
                    await response.aclose()
        except httpx.HTTPError as error:
            raise EngineError(f"{self._shown} {failure(error).reason}") from None
        except TimeoutError:
            raise EngineError(f"{self._shown} did not answer within {_START_TIMEOUT_S:g} s") from None
        except Unusable as error:
            raise EngineError(f"{self._shown} {error}") from None
        except (ValueError, RecursionError):
            return None

    async def _check_model(self, models: list[str]) -> None:
        if self.model in models:
            return
        # Aliases and models that are not listed can often be asked for by name.
        try:
            found = await self._get(f"models/{quote(self.model, safe='/:')}")
        except EngineError:
            found = None
        if not isinstance(found, Mapping) or not found.get("id"):
            raise ConfigError(f"{self._shown} has no model {self.model!r}, but {_shown(models)}")


def _spoken(body: Mapping[str, Any], not_taken: frozenset[str]) -> dict[str, Any]:
    """Return the body as an endpoint takes it. What is not neutral is sent all the same: it is refused, not ignored."""
    left_out = {name for name in not_taken & body.keys() if _is_dispensable(name, body[name])}
    spoken = {name: value for name, value in body.items() if name not in left_out}
    for name in not_taken & _RENAMED.keys() & spoken.keys():
        spoken[_RENAMED[name]] = spoken.pop(name)
    return spoken


def _is_dispensable(name: str, value: Any) -> bool:
    return name in _DISPENSABLE and _NEUTRAL.get(name, value) == value


def _refused_field(refusal: Refusal, body: Mapping[str, Any]) -> str | None:
    """Return the field of the body that the endpoint does not take, if the request may be sent without it, or by its other name."""
    if refusal.code not in (400, 422):
        return None
    named = set(re.findall(r"[a-z_]+", refusal.said))
    for name in body:
        if name in named and (_is_dispensable(name, body[name]) or _RENAMED.get(name) in named):
            return name
    return None


def _names(listed: Any) -> list[str] | None:
    data = cast("Mapping[str, Any]", listed).get("data") if isinstance(listed, Mapping) else listed
    if not isinstance(data, list):
        return None
    entries = [cast("Mapping[str, Any]", entry) for entry in cast("list[Any]", data) if isinstance(entry, Mapping)]
    return list(dict.fromkeys(entry["id"] for entry in entries if isinstance(entry.get("id"), str)))


def _shown(models: list[str]) -> str:
    if not models:
        return "no model in its list"
    more = f" and {len(models) - _MAX_SHOWN_MODELS} more" if len(models) > _MAX_SHOWN_MODELS else ""
    return ", ".join(ascii(name[:80]) for name in models[:_MAX_SHOWN_MODELS]) + more
