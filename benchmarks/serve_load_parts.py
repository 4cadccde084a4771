"""What `serve_load.py` asks with: a server in a process of its own, connections as bare as they can be, and what is measured of both."""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import uvloop

SERVER = Path(__file__).with_name("serve_load_server_parts.py")
CHAT = "/v1/chat/completions"
_PROBE_S = 0.005


@dataclass
class Server:
    """A running server."""

    host: str
    port: int
    process: subprocess.Popen[str]


@contextmanager
def serving(**options: Any) -> Generator[Server]:
    """Start a server and end it by SIGTERM, as whoever runs one would."""
    process = subprocess.Popen(
        [sys.executable, str(SERVER), json.dumps(options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        assert process.stdout is not None, "it is a pipe"
        url = process.stdout.readline().strip()
        if not url:
            raise SystemExit("the server did not start: run benchmarks/serve_load_server_parts.py to see why")
        host, port = url.removeprefix("http://").split(":")
        yield Server(host, int(port), process)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


@dataclass(slots=True)
class Answer:
    """What came back, unread. Units: seconds of a clock that starts anywhere. `status` 0: the connection was closed before a head came."""

    sent: float
    ended: float = 0.0
    content: bytearray = field(default_factory=bytearray)

    @property
    def seconds(self) -> float:
        return self.ended - self.sent

    @property
    def status(self) -> int:
        return int(self.content[9:12]) if self.content.startswith(b"HTTP/1.1 ") else 0

    @property
    def body(self) -> bytes:
        head, _, rest = bytes(self.content).partition(b"\r\n\r\n")
        return _dechunked(rest) if b"transfer-encoding: chunked" in head.lower() else rest

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The events of a stream; a last one that is not `[DONE]` becomes None."""
        lines = [line[6:] for line in self.body.decode().split("\n\n") if line.startswith("data: ")]
        return [*map(json.loads, lines[:-1]), "done" if lines and lines[-1] == "[DONE]" else None]


class Connection(asyncio.Protocol):
    """One connection, on which one request after another is sent; answers are not looked into while others are awaited."""

    def __init__(self) -> None:
        self._answer: Answer | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._missing = -1
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            return
        content = self._answer.content
        content += data
        if self._missing == -1 and (end := content.find(b"\r\n\r\n")) >= 0:
            length = re.search(rb"content-length: (\d+)", bytes(content[:end]).lower())
            self._missing = end + 4 + int(length[1]) if length else 0
        # A stream's events end with an empty line, so that nothing but the last chunk looks like it.
        if len(content) >= self._missing > 0 or (self._missing == 0 and content.endswith(b"\r\n0\r\n\r\n")):
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self._answer is not None:
            self._end()

    async def ask(self, content: bytes) -> Answer:
        """Send a request and wait for its answer, or for the connection's end."""
        assert self.transport is not None, "it is connected"
        self._missing, self._waiter = -1, asyncio.get_running_loop().create_future()
        self._answer = answer = Answer(time.perf_counter())
        self.transport.write(content)
        await self._waiter
        return answer

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()

    def _end(self) -> None:
        assert self._answer is not None, "something was asked"
        self._answer.ended = time.perf_counter()
        self._answer = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


@asynccontextmanager
async def connected(server: Server):
    """Give a connection to the server."""
    _, connection = await asyncio.get_running_loop().create_connection(Connection, server.host, server.port)
    try:
        yield connection
    finally:
        connection.close()


def post(server: Server, body: bytes, *, headers: Sequence[str] = (), path: str = CHAT) -> bytes:
    """Write a request with a JSON body."""
    lines = [f"POST {path} HTTP/1.1", f"Host: {server.host}:{server.port}", f"Content-Length: {len(body)}", *headers]
    if not any(line.lower().startswith("content-type:") for line in headers):
        lines.append("Content-Type: application/json")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


def question(mark: str) -> str:
    """Return a problem of some length with a mark in it, which is also its right answer."""
    return f"{mark}: the first hundred whole numbers are added, and the result is halved. What is it?"


def chat(server: Server, mark: str, *, key: str | None = None, **fields: Any) -> bytes:
    """Write a request to solve the problem with that mark."""
    tree = {"messages": [{"role": "user", "content": question(mark)}], "gold": mark, **fields}
    headers = [] if key is None else [f"Authorization: Bearer {key}"]
    return post(server, json.dumps(tree).encode(), headers=headers)


def fault_of(answer: Answer, mark: str, *, is_streamed: bool) -> str | None:
    """Return what is wrong with the answer to `chat(…, include_draft=True)`: 'lost', 'mixed', or None where all of it belongs to the mark."""
    if answer.status != 200:
        return "lost"
    try:
        final, draft, told = _streamed(answer) if is_streamed else _whole(answer)
    except (ValueError, KeyError, IndexError, TypeError):
        return "lost"
    note = f"note-{mark[5:][::-1]}"
    told_right = told["verdict"] == "correct" and told["answer"] == mark
    right = final.startswith(f"I read {note}.") and final.endswith(f"<answer>{mark}</answer>") and note in draft
    others = set(re.findall(r"mark-[0-9a-f]{12}", final + draft)) - {mark}
    return None if right and told_right and not others else "mixed"


def _whole(answer: Answer) -> tuple[str, str, dict[str, Any]]:
    tree = answer.json
    (choice,), (told,) = tree["choices"], tree["agon"]
    return choice["message"]["content"], choice["message"]["reasoning_content"], told


def _streamed(answer: Answer) -> tuple[str, str, dict[str, Any]]:
    *events, last = answer.events
    if last != "done":
        raise ValueError("it broke off")
    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    told = [event["agon"] for event in events if event.get("agon", {}).get("event") == "finished"]
    text = "".join(delta.get("content", "") for delta in deltas)
    return text, "".join(delta.get("reasoning_content", "") for delta in deltas), told[0]


def _dechunked(content: bytes) -> bytes:
    parts: list[bytes] = []
    at = 0
    while (end := content.find(b"\r\n", at)) >= 0 and (length := int(content[at:end], 16)):
        parts.append(content[end + 2 : end + 2 + length])
        at = end + 2 + length + 2
    return b"".join(parts)


async def metrics_of(server: Server, *, key: str | None = None) -> dict[str, float]:
    """Return what the server counts, by name and labels as they are written."""
    headers = "" if key is None else f"Authorization: Bearer {key}\r\n"
    async with connected(server) as connection:
        answer = await connection.ask(f"GET /metrics HTTP/1.1\r\nHost: {server.host}\r\n{headers}\r\n".encode())
    lines = [line.rsplit(" ", 1) for line in answer.body.decode().splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in lines}


async def is_healthy(server: Server) -> bool:
    async with connected(server) as connection:
        answer = await connection.ask(f"GET /health HTTP/1.1\r\nHost: {server.host}\r\n\r\n".encode())
    return answer.status == 200


@dataclass(slots=True)
class Lag:
    """How late this process is called: what it adds to every time that it takes. Units: seconds."""

    late: list[float] = field(default_factory=list)
    cpu_s: float = 0.0


@asynccontextmanager
async def watched():
    """Give what will be known of this process's own lag when the block is over."""
    lag, started = Lag(), time.process_time()

    async def probe() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(_PROBE_S)
            lag.late.append(time.perf_counter() - before - _PROBE_S)

    task = asyncio.create_task(probe())
    try:
        yield lag
    finally:
        task.cancel()
        lag.cpu_s = time.process_time() - started


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine on the event loop that costs least."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that so large a share of all is not above."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]
