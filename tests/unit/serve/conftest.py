"""Jobs over bare prompts, and a loop to play them on."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections import deque
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from agon.config import TaskSettings
from agon.match.asking import Sampling
from agon.match.lineups import lineup_for
from agon.methods.registry import method_named
from agon.records import Problem
from agon.serve.access import Limits
from agon.serve.admission import Admission
from agon.serve.app import create_app
from agon.serve.cascade import play_job
from agon.serve.models import Offer, Vocabulary, run_models
from agon.serve.records import Job
from agon.serve.scripted import ScriptedBackend
from agon.serve.service import Service

PROBLEM = Problem(id="p1", question="1+1", gold="2", task="t", verifier="exact")
SAMPLING = Sampling(max_draft_tokens=200, max_challenge_tokens=200, max_summary_tokens=100)


@pytest.fixture
def make_job(make_session) -> Callable[..., Job]:
    """Return a function that makes a job of the prompts and the summaries of a session without a model."""
    session, _ = make_session(lambda prompt, request: "")

    def make(protocol="cascade", *, problem=PROBLEM, can_check=True, sampling=SAMPLING, lineup=None, **fields) -> Job:
        return Job(
            problem=problem,
            can_check=can_check,
            lineup=lineup or lineup_for(protocol),
            sampling=sampling,
            prompts=session.prompts,
            summarizer=session.summarizer,
            style=session.style,
            **fields,
        )

    return make


@pytest.fixture
def check(make_session):
    """Right if the answer is the gold's text."""
    session, _ = make_session(lambda prompt, request: "")

    async def one(problem, completion, style):
        (verdict,) = session.verifiers.verify([(problem, completion)], style)
        return verdict

    return one


@pytest.fixture
def collect():
    """Return a function that plays a job to its end and returns its events."""

    async def play(backend, job, check):
        async with aclosing(play_job(backend, job, check)) as events:
            return [event async for event in events]

    return lambda backend, job, check: asyncio.run(play(backend, job, check))


@pytest.fixture
def make_service(make_session, check):
    """Return a function (script, …) that makes a server's service over a scripted backend: a trained pair that knows one token a character."""
    session, _ = make_session(lambda prompt, request: "")

    def make(
        script=answer_with_prompt,
        *,
        max_running=64,
        max_queue=256,
        limits=None,
        keys=(),
        hosts=(),
        offer=None,
        task=None,
        sampling=SAMPLING,
        **backend,
    ) -> Service:
        default = Offer(
            name="a run",
            models=run_models(method_named("agon"), "a-b"),
            sampling=sampling,
            prompts=session.prompts,
            summarizer=session.summarizer,
            style=session.style,
            task=task or TaskSettings(name="custom", path="problems.jsonl", verifier="exact"),
            vocabulary=Vocabulary(
                session.tokenizer.encode,
                session.tokenizer.decode,
                size=0x110000,
                open_text=CharText,
                stop_ids=frozenset({0}),
            ),
        )
        return Service(
            offer=replace(default, **(offer or {})),
            backend=ScriptedBackend(script, **backend),
            check=check,
            admission=Admission(max_running=max_running, max_queue=max_queue),
            limits=limits or Limits(),
            keys=keys,
            hosts=hosts,
        )

    return make


def answer_with_prompt(turn):
    """Say who was asked what."""
    return f"{turn.role} {turn.request.adapter}: {turn.prompt.text}"


class CharText:
    """Reads tokens that are characters."""

    def add(self, token_ids):
        return "".join(map(chr, token_ids))


class Told(NamedTuple):
    """What an application answered."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def json(self):
        return json.loads(self.content)

    @property
    def error(self):
        """The error, after a look at its shape."""
        assert self.json.keys() == {"error"}
        assert self.json["error"].keys() == {"message", "type", "param", "code"}
        assert isinstance(self.json["error"]["message"], str)
        return self.json["error"]

    @property
    def events(self):
        """The data of a stream's events, but for comments; `[DONE]` stays a text."""
        assert self.headers["content-type"].startswith("text/event-stream")
        assert self.content.endswith(b"\n\n")
        lines = [event for event in self.content.decode().split("\n\n") if event and not event.startswith(":")]
        assert all(line.startswith("data: ") and "\n" not in line for line in lines)
        data = [line.removeprefix("data: ") for line in lines]
        return [one if one == "[DONE]" else json.loads(one) for one in data]


class Client:
    """Speaks ASGI to an application: what a connection may do that libraries do not, such as leaving, is a method."""

    def __init__(self, app):
        self.app = app

    async def send(
        self,
        method,
        path,
        body=b"",
        *,
        headers=(),
        leaves=None,
        query=b"",
        peer="127.0.0.1",
        on_body=None,
        version="1.1",
    ):
        """Send a request and return what came back. `leaves` is a coroutine function: when it returns, the client has left."""
        chunks = [body] if isinstance(body, bytes) else list(body)
        waiting, parts, told, has_ended = deque(chunks), [], {}, asyncio.Event()

        async def receive():
            if waiting:
                chunk = waiting.popleft()
                return {"type": "http.request", "body": chunk, "more_body": bool(waiting)}
            await (has_ended.wait() if leaves is None else leaves())
            return {"type": "http.disconnect"}

        async def send(message):
            if message["type"] == "http.response.start":
                assert not told, "a response starts once"
                told.update(status=message["status"], headers=message["headers"])
                return
            parts.append(message["body"])
            if on_body is not None:
                await on_body(message["body"])
            if not message.get("more_body", False):
                has_ended.set()

        names = {name for name, _ in headers}
        default = [(b"host", b"127.0.0.1:8000")] if b"host" not in names else []
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": version,
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query,
            "root_path": "",
            "headers": [*default, *headers],
            "client": (peer, 50000),
            "server": ("127.0.0.1", 8000),
            "state": {},
        }
        await self.app(scope, receive, send)
        read = {name.decode(): value.decode() for name, value in told.get("headers", [])}
        return Told(told.get("status", 0), read, b"".join(parts))

    async def get(self, path, **fields):
        return await self.send("GET", path, **fields)

    async def post(self, path, tree, *, headers=(), **fields):
        body = tree if isinstance(tree, bytes) else json.dumps(tree).encode()
        return await self.send("POST", path, body, headers=[(b"content-type", b"application/json"), *headers], **fields)

    async def chat(self, text="1+1", *, headers=(), leaves=None, peer="127.0.0.1", on_body=None, **fields):
        tree = {"messages": [{"role": "user", "content": text}], **fields}
        return await self.post("/v1/chat/completions", tree, headers=headers, leaves=leaves, peer=peer, on_body=on_body)

    async def complete(self, prompt="1+1", **fields):
        return await self.post("/v1/completions", {"prompt": prompt, **fields})


@pytest.fixture
def client_of():
    """Return a function that makes a client of a service's application."""
    return lambda service: Client(create_app(service))


@pytest.fixture(scope="session")
def stepped() -> ModuleType:
    """The stepping engine without a model, and what reads its tokens, from the file beside this one."""
    spec = importlib.util.spec_from_file_location("stepped", Path(__file__).with_name("stepped.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def stepped_script(stepped):
    return stepped.SteppedScript


@pytest.fixture
def char_reader(stepped):
    return stepped.CharReader()
