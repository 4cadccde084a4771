"""Endpoints that answer, refuse, stall and break off as they are told, and backends over them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from agon.errors import EngineError
from agon.match.asking import Sampling
from agon.match.exchange import exchange_of
from agon.records import Problem
from agon.serve.backend import EndpointError
from agon.serve.endpoints import EndpointPrompts, endpoint_lineups, endpoint_of, endpoint_summarizer, endpoint_task
from agon.serve.records import Job
from agon.serve.remote.backend import RemoteBackend


@dataclass
class Seen:
    """One request as an endpoint saw it, and where it answers."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict
    writer: asyncio.StreamWriter

    def send(self, head: str, body: bytes | str = b"", *, has_length: bool = True) -> None:
        body = body.encode() if isinstance(body, str) else body
        length = f"Content-Length: {len(body)}\r\n" if has_length else ""
        self.writer.write(f"HTTP/1.1 {head}\r\n{length}\r\n".encode() + body)

    def refuse(self, status: int, error: str | dict, *headers: str) -> None:
        kind = "Content-Type: application/json"
        self.send("\r\n".join([f"{status} No", kind, *headers]), json.dumps({"error": error}))

    def start_stream(self) -> None:
        self.writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")

    def event(self, data: dict | str) -> None:
        line = f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()
        self.writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")

    def say(self, text: str, finish_reason: str | None = None) -> None:
        self.event({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish_reason}]})

    def end_stream(self) -> None:
        self.event("[DONE]")
        self.writer.write(b"0\r\n\r\n")

    def answer(self, *texts: str, reason: str = "stop", usage: tuple[int, int] | None = (11, 5)) -> None:
        self.start_stream()
        for text in texts:
            self.say(text)
        self.say("", reason)
        if usage is not None:
            self.event({"choices": [], "usage": {"prompt_tokens": usage[0], "completion_tokens": usage[1]}})
        self.end_stream()


Script = Callable[[Seen], Awaitable[None] | None]


@dataclass
class FakeEndpoint:
    """An endpoint on a port of its own. `script` answers what is asked of its chat, `seen` is all that was; `models` is its list."""

    script: Script
    models: object = field(default_factory=lambda: {"data": [{"id": "m"}]})
    seen: list[Seen] = field(default_factory=list)
    num_connections: int = 0
    port: int = 0
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    server: asyncio.Server | None = None
    open: set[asyncio.Task] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def chats(self) -> list[dict]:
        return [seen.body for seen in self.seen if seen.path.endswith("/chat/completions")]

    async def start(self, port: int = 0) -> None:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = self.server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self.server.close()
        for task in self.open:
            task.cancel()
        await asyncio.gather(*self.open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.num_connections += 1
        self.open.add(asyncio.current_task())
        try:
            await self._talk(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
                method, path, _ = first.split(" ")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                seen = Seen(method, path, headers, json.loads(body or "{}"), writer)
                self.seen.append(seen)
                await self._answer(seen, reader)

    async def _answer(self, seen: Seen, reader: asyncio.StreamReader) -> None:
        if seen.method == "GET" and isinstance(self.models, str):
            seen.send("200 OK\r\nContent-Type: text/html", self.models)
        elif seen.method == "GET" and isinstance(self.models, dict) and seen.path.startswith("/v1/models"):
            name = seen.path.removeprefix("/v1/models").strip("/")
            listed = self.models if not name else self.models.get(name)
            seen.send("200 OK" if listed else "404 Not Found", json.dumps(listed))
        else:
            work = asyncio.ensure_future(_as_awaitable(self.script, seen))
            closed = asyncio.ensure_future(reader.read(1)) if getattr(self.script, "waits", False) else None
            if closed is not None:
                await asyncio.wait([work, closed], return_when=asyncio.FIRST_COMPLETED)
                if closed.done():
                    self.gone.set()
                    work.cancel()
                    raise ConnectionError
                closed.cancel()
            await work
        await seen.writer.drain()


async def _as_awaitable(script: Script, seen: Seen) -> None:
    done = script(seen)
    if done is not None:
        await done


class Trial:
    """Backends over endpoints that answer by scripts. A script may be a coroutine; `waits` marks one that may be left."""

    endpoint = FakeEndpoint
    sampling = Sampling(
        max_draft_tokens=100, max_challenge_tokens=200, max_summary_tokens=50, temperature=0.7, top_p=0.9
    )

    def run(self, play, *scripts, environ=(), models=None, start=True, model=None, other=None, **options):
        """Play against a backend over one endpoint a script, and return what came of it. One endpoint has both places."""

        async def everything():
            endpoints = [FakeEndpoint(script) for script in scripts]
            for endpoint in endpoints:
                await endpoint.start()
                endpoint.models = models if models is not None else endpoint.models
            backend = RemoteBackend(
                endpoint_of("drafter", endpoints[0].url, model, environ=dict(environ)),
                endpoint_of("challenger", endpoints[-1].url, other, environ=dict(environ)),
                **{"backoff_s": 0.001, **options},
            )
            try:
                if start:
                    await backend.start()
                return await play(backend, *endpoints)
            finally:
                await backend.close()
                for endpoint in endpoints:
                    await endpoint.close()

        return asyncio.run(asyncio.wait_for(everything(), 20))

    def job(self, model="cascade", **fields) -> Job:
        return Job(
            problem=Problem(id="p", question="What is 6 times 7?", gold="42", task="custom", verifier="math"),
            can_check=False,
            lineup=endpoint_lineups()[model],
            prompts=EndpointPrompts(endpoint_task("boxed")),
            summarizer=endpoint_summarizer(endpoint_task("boxed")),
            style="boxed",
            **{"sampling": self.sampling, "seed": 5, **fields},
        )

    def exchange(self, job: Job):
        return exchange_of(
            job.problem,
            job.lineup,
            prompts=job.prompts,
            summarizer=job.summarizer,
            style=job.style,
            samples=job.samples,
            sampling=job.sampling,
            seed=job.seed,
            stream=("solve",),
        )

    async def sample(self, backend, job: Job, turn=None):
        turn = turn or self.exchange(job).begin()[0]
        async with contextlib.aclosing(backend.sample(turn, job)) as pieces:
            return [piece async for piece in pieces]

    def drafted(self, *scripts, job: Job | None = None, **options):
        """Sample one draft, and return its pieces and the drafter's endpoint."""

        async def play(backend, endpoint, *_):
            return await self.sample(backend, job or self.job()), endpoint

        return self.run(play, *scripts, **options)

    def refused(self, *scripts, job: Job | None = None, **options):
        """Sample one draft that is an error, and return it and the drafter's endpoint."""

        async def play(backend, endpoint, *_):
            with pytest.raises(EndpointError) as raised:
                await self.sample(backend, job or self.job())
            assert "\n" not in str(raised.value)
            assert isinstance(raised.value, EngineError)
            return raised.value, endpoint

        return self.run(play, *scripts, **options)

    @staticmethod
    def waits(script):
        """Mark a script whose endpoint looks for the end of the connection while it works."""
        script.waits = True
        return script

    @staticmethod
    def in_turn(*scripts):
        """Answer the first request by the first script, and so on; the last answers all others."""
        left = list(scripts)
        return lambda seen: (left.pop(0) if len(left) > 1 else left[0])(seen)


@pytest.fixture
def trial() -> Trial:
    return Trial()
