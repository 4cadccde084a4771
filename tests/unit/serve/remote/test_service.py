"""`agon serve` over two endpoints, as a process of its own, driven by the official client."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import openai
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

KEYS = {"AGON_DRAFTER_KEY": "key-of-the-drafter-1234", "AGON_CHALLENGER_KEY": "key-of-the-challenger-5678"}
QUESTION = "What is 6 times 7?"


class Endpoint:
    """An OpenAI-compatible server in a thread. `say(body)` is its answer, word by word; a number among the words is a pause."""

    def __init__(self, model, key, say):
        self.model, self.key, self.say = model, key, say
        self.bodies, self.num_left, self.num_open = [], 0, 0
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        routes = [Route("/v1/models", self.models), Route("/v1/chat/completions", self.chat, methods=["POST"])]
        config = uvicorn.Config(
            Starlette(routes=routes), log_level="critical", lifespan="off", timeout_graceful_shutdown=1
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.should_exit = True
        self.thread.join(10)
        self.socket.close()

    def is_let_in(self, request):
        return request.headers.get("authorization") == f"Bearer {self.key}"

    async def models(self, request):
        if not self.is_let_in(request):
            return JSONResponse({"error": {"message": "no"}}, status_code=401)
        return JSONResponse({"object": "list", "data": [{"id": self.model, "object": "model"}]})

    async def chat(self, request):
        body = await request.json()
        self.bodies.append(body)
        if not self.is_let_in(request):
            return JSONResponse({"error": {"message": "no"}}, status_code=401)
        words = self.say(body)
        if isinstance(words, int):
            return JSONResponse({"error": {"message": "it broke"}}, status_code=words)
        return StreamingResponse(self.stream(words), media_type="text/event-stream")

    async def stream(self, words):
        self.num_open += 1
        try:
            for word in words:
                if isinstance(word, str):
                    yield _event({"choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]})
                else:
                    await asyncio.sleep(word)
            yield _event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            usage = {"prompt_tokens": 100, "completion_tokens": len(words)}
            yield _event({"choices": [], "usage": usage}) + "data: [DONE]\n\n"
        except BaseException:
            self.num_left += 1
            raise
        finally:
            self.num_open -= 1


def _event(data):
    return f"data: {json.dumps(data)}\n\n"


def draft(body):
    question = body["messages"][-1]["content"]
    if "break" in question:
        return 500
    if "refuse" in question:
        return 400
    if "wait" in question:
        return ["Waiting ", 30, "done"]
    return ["<think>", "41?", "</think>", "Six sevens, ", "one by one.\n\n", "The answer is ", "\\boxed{41}."]


def challenge(body):
    question = body["messages"][-1]["content"]
    return ["Slow ", 30, "done"] if "dawdle" in question else ["Seven sixes: ", "\\boxed{42}", "."]


@contextmanager
def serving(*words, **environ):
    """Run `agon serve`, and give the process and its address."""
    # What a user may have set must not lead a request for this machine astray.
    astray = {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9", "OPENAI_API_KEY": "sk-of-openai"}
    command = [sys.executable, "-m", "agon.cli.main", "serve", *words, "--port", "0"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **astray, **environ},
    )
    try:
        line = process.stdout.readline()
        yield process, line.partition(" at ")[2].partition(" ")[0]
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def drafter():
    with Endpoint("small", KEYS["AGON_DRAFTER_KEY"], draft) as one:
        yield one


@pytest.fixture(scope="module")
def challenger():
    with Endpoint("large", KEYS["AGON_CHALLENGER_KEY"], challenge) as one:
        yield one


@pytest.fixture(scope="module")
def served(drafter, challenger):
    with serving("--drafter", drafter.url, "--challenger", f"{challenger.url}/v1/", **KEYS) as (process, url):
        assert url, process.communicate()[1]
        yield process, url


@pytest.fixture
def client(served):
    with openai.OpenAI(base_url=f"{served[1]}/v1", api_key="none", max_retries=0, timeout=20) as one:
        yield one


def ask(client, text=QUESTION, **fields):
    fields = {"model": "cascade", "messages": [{"role": "user", "content": text}], **fields}
    return client.chat.completions.create(**fields)


def test_two_endpoints_answer_a_problem_as_a_pair_does(client, drafter, challenger):
    told = ask(client, extra_body={"gold": "42", "include_draft": True}, seed=3, temperature=0.5)
    (choice,) = told.choices
    assert (choice.message.content, choice.finish_reason) == ("Seven sixes: \\boxed{42}.", "stop")
    assert "one by one" in choice.message.reasoning_content
    (details,) = told.agon
    assert (details["answer"], details["verdict"], details["direction"]) == ("42", "correct", "a-b")
    assert details["summary"] == "Six sevens, one by one.\n\nThe answer is [withheld]."
    usage = told.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (200, 10, 210)
    assert [(stage["role"], stage["adapter"], stage["completion_tokens"]) for stage in usage.stages] == [
        ("drafter", "A", 7),
        ("challenger", "B", 3),
    ]
    asked, shown = (endpoint.bodies[-1]["messages"][-1]["content"] for endpoint in (drafter, challenger))
    assert asked.endswith(f"Problem:\n{QUESTION}")
    assert details["summary"] in shown
    assert "41" not in shown
    assert [endpoint.bodies[-1]["model"] for endpoint in (drafter, challenger)] == ["small", "large"]
    assert drafter.bodies[-1]["temperature"] == 0.5


def test_a_stream_tells_the_draft_the_answer_and_the_ledger(client):
    chunks = list(ask(client, stream=True, stream_options={"include_usage": True}, extra_body={"include_draft": True}))
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == "Seven sixes: \\boxed{42}."
    thought = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
    assert thought.startswith("<think>41?</think>Six sevens, one by one.")
    assert chunks[-1].usage.total_tokens == 210
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason] == ["stop"]


def test_a_conversation_goes_ahead_of_the_problem(client, drafter, challenger):
    before = [{"role": "system", "content": "Be brief."}, {"role": "assistant", "content": "Ask."}]
    ask(client, messages=[*before, {"role": "user", "content": QUESTION}])
    for endpoint in (drafter, challenger):
        assert endpoint.bodies[-1]["messages"][:2] == before
        assert len(endpoint.bodies[-1]["messages"]) == 3


def test_the_models_are_both_directions_and_each_alone(client, drafter, challenger):
    assert [model.id for model in client.models.list()] == ["cascade", "cascade-b-a", "drafter", "challenger"]
    other_way = ask(client, model="cascade-b-a", extra_body={"include_draft": True})
    assert other_way.choices[0].message.content.endswith("\\boxed{41}.")
    assert other_way.agon[0]["summary"] == "Seven sixes: [withheld]."
    num_drafts = len(drafter.bodies)
    alone = ask(client, model="challenger", n=2, stop=["END"])
    assert [choice.message.content for choice in alone.choices] == ["Seven sixes: \\boxed{42}."] * 2
    assert (len(drafter.bodies), challenger.bodies[-1]["stop"]) == (num_drafts, ["END"])
    assert alone.usage.completion_tokens == 6


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("text", "status", "says"), [("break", 500, "failed"), ("refuse", 400, "refused the request")])
def test_what_goes_wrong_at_an_endpoint_is_told(client, stream, text, status, says):
    with pytest.raises(openai.APIError) as raised:
        list(ask(client, f"{text} this", stream=stream))
    assert f"the drafter's endpoint {says} ({status}): it broke" in str(raised.value)
    if not stream:
        assert raised.value.status_code == {500: 502, 400: 400}[status]


@pytest.mark.parametrize("field", [{"logprobs": True}, {"extra_body": {"top_k": 5}}])
def test_what_endpoints_cannot_do_is_refused(client, field):
    with pytest.raises(openai.BadRequestError):
        ask(client, **field)


@pytest.mark.parametrize("text", ["wait here", "dawdle there"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_ends_what_its_endpoint_does(client, drafter, challenger, text, stream):
    endpoint = drafter if "wait" in text else challenger
    num_left = endpoint.num_left
    if stream:
        chunks = ask(client, text, stream=True, extra_body={"include_draft": True})
        for chunk in chunks:
            if "Waiting" in chunk.model_dump_json() or "Slow" in chunk.model_dump_json():
                break
        chunks.close()
    else:
        with pytest.raises(openai.APITimeoutError):
            ask(client, text, timeout=0.5)
    end = time.monotonic() + 2
    while endpoint.num_left == num_left and time.monotonic() < end:
        time.sleep(0.01)
    assert (endpoint.num_left, endpoint.num_open) == (num_left + 1, 0)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux tells what a process has loaded")
def test_the_server_has_loaded_no_torch(served, client):
    ask(client, extra_body={"gold": "42"})
    assert "torch" not in Path(f"/proc/{served[0].pid}/maps").read_text()


def test_keys_and_problems_are_in_no_log_and_the_end_is_clean(drafter, challenger):
    words = ("--drafter", drafter.url, "--challenger", challenger.url, "--answer-style", "tags", "--max-tokens", "77")
    with serving(*words, **KEYS) as (process, url):
        with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            ask(client)
            with pytest.raises(openai.InternalServerError):
                ask(client, "break this")
        process.send_signal(signal.SIGTERM)
        said = "".join(process.communicate(timeout=20))
    assert process.returncode == 0
    assert said.count("POST /v1/chat/completions") == 2
    for hidden in (*KEYS.values(), "sk-of-openai", QUESTION, "break this", "Traceback"):
        assert hidden not in said
    assert drafter.bodies[-1]["max_tokens"] == 77
    assert "<answer>" in drafter.bodies[-1]["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({}, "the drafter's endpoint http://127.0.0.1:{port}/v1 wants a key (401): set AGON_DRAFTER_KEY"),
        (
            {**KEYS, "AGON_CHALLENGER_KEY": "key-of-another"},
            "the challenger's endpoint http://127.0.0.1:{other}/v1 refuses the key that it was given (401): check AGON_CHALLENGER_KEY",
        ),
    ],
)
def test_a_start_that_is_refused_is_one_line(drafter, challenger, variables, says):
    with serving("--drafter", drafter.url, "--challenger", challenger.url, **variables) as (process, url):
        said = process.communicate(timeout=20)[1]
    ports = {"port": drafter.url.rpartition(":")[2], "other": challenger.url.rpartition(":")[2]}
    assert (url, process.returncode, said) == ("", 1, f"agon: {says.format(**ports)}\n")
