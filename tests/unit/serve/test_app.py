from __future__ import annotations

import asyncio
import json
import logging
import time

import pytest
from starlette.routing import Route

from agon.errors import EngineError
from agon.serve.access import Limits
from agon.serve.app import create_app

CHAT = "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "1+1"}]


def ask(client, *calls):
    """Make calls one after another on one loop."""

    async def all_of():
        return [await call(client) for call in calls]

    return asyncio.run(all_of())


def test_health_says_ok_and_then_why_it_failed(make_service, client_of):
    service = make_service()
    client = client_of(service)
    (good,) = ask(client, lambda c: c.get("/health"))
    service.backend.fail("the card is gone")
    bad, chat = ask(client, lambda c: c.get("/health"), lambda c: c.chat())
    assert (good.status, good.json) == (200, {"status": "ok"})
    assert bad.status == 503
    assert bad.json == {"status": "failed", "reason": "the server cannot sample: the card is gone"}
    assert chat.status == 503
    assert "the card is gone" in chat.error["message"]


def test_models_are_listed_default_first_and_found_by_name(make_service, client_of):
    listed, one, none = ask(
        client_of(make_service()),
        lambda c: c.get("/v1/models"),
        lambda c: c.get("/v1/models/challenger"),
        lambda c: c.get("/v1/models/gpt-4"),
    )
    names = ["cascade", "cascade-b-a", "likeliest", "drafter", "challenger", "base"]
    assert [model["id"] for model in listed.json["data"]] == names
    both = [{"role": "drafter", "adapter": "A"}, {"role": "drafter", "adapter": "B"}]
    assert listed.json["data"][2]["agon"] == {"direction": None, "stages": both, "shows_answer": False}
    assert listed.json["object"] == "list"
    assert {model["object"] for model in listed.json["data"]} == {"model"}
    assert one.json["agon"] == {
        "direction": None,
        "stages": [{"role": "drafter", "adapter": "B"}],
        "shows_answer": False,
    }
    assert none.status == 404
    assert (none.error["param"], none.error["code"]) == ("model", "model_not_found")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "//v1/models", 404),
        ("GET", "/V1/models", 404),
        ("GET", "/v1/models/", 404),
        ("GET", "/v1/models/a/b", 404),
        ("GET", CHAT, 405),
        ("PUT", CHAT, 405),
        ("DELETE", "/v1/models", 405),
        ("POST", "/health", 405),
        ("BREW", "/health", 405),
    ],
)
def test_routes_and_methods_that_are_not_there_are_errors_in_openais_shape(
    make_service, client_of, method, path, status
):
    (told,) = ask(client_of(make_service()), lambda c: c.send(method, path))
    assert told.status == status
    assert told.error["type"] == "invalid_request_error"
    assert ("allow" in told.headers) == (status == 405)


def chat_with(**fields):
    return json.dumps({"messages": MESSAGES, **fields}).encode()


def message_with(**fields):
    return json.dumps({"messages": [{"role": "user", "content": "1+1", **fields}]}).encode()


MALFORMED = {
    "cut off": b"{",
    "a list": b"[]",
    "empty": b"",
    "a text": b'"hi"',
    "null": b"null",
    "no JSON": b"messages=1",
    "two documents": b"{}{}",
    "NaN": b'{"messages": [{"role": "user", "content": "x"}], "temperature": NaN}',
    "infinity": b'{"messages": [{"role": "user", "content": "x"}], "temperature": -Infinity}',
    "too large for a float": b'{"messages": [{"role": "user", "content": "x"}], "temperature": 1e999}',
    "a key twice": b'{"messages": [{"role": "user", "content": "x"}], "n": 1, "n": 2}',
    "a key twice inside": b'{"messages": [{"role": "user", "role": "user", "content": "x"}]}',
    "bytes that are no UTF-8": b'{"messages": [{"role": "user", "content": "\xff"}]}',
    "UTF-16": '{"messages": [{"role": "user", "content": "x"}]}'.encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf" + chat_with(),
    "half a surrogate pair": b'{"messages": [{"role": "user", "content": "\\ud83d"}]}',
    "nested 100,000 deep": b'{"a":' * 100_000,
    "lists nested 100,000 deep": b'{"messages": ' + b"[" * 100_000,
    "a number of 5,000 digits": b'{"seed": ' + b"9" * 5000 + b"}",
    "no messages": b"{}",
    "messages null": b'{"messages": null}',
    "messages empty": b'{"messages": []}',
    "messages a text": b'{"messages": "1+1"}',
    "an empty message": b'{"messages": [{}]}',
    "a message that is a text": b'{"messages": ["1+1"]}',
    "100,000 messages": json.dumps({"messages": MESSAGES * 20_000}).encode(),
    "role robot": message_with(role="robot"),
    "content null": message_with(content=None),
    "content a number": message_with(content=5),
    "content blank": message_with(content=" "),
    "content an image": message_with(content=[{"type": "image_url", "image_url": {"url": "data:"}}]),
    "temperature a text": chat_with(temperature="hot"),
    "temperature negative": chat_with(temperature=-1),
    "temperature too high": chat_with(temperature=2.1),
    "temperature that overflows": chat_with(temperature=1e-300),
    "top_p 0": chat_with(top_p=0),
    "max_tokens 0": chat_with(max_tokens=0),
    "max_tokens negative": chat_with(max_tokens=-1),
    "max_tokens a billion": chat_with(max_tokens=10**9),
    "max_tokens a text": chat_with(max_tokens="5"),
    "max_tokens a float": chat_with(max_tokens=5.5),
    "n 0": chat_with(n=0),
    "n 1000": chat_with(n=1000),
    "n true": chat_with(n=True),
    "five stops": chat_with(stop=["a", "b", "c", "d", "e"]),
    "an empty stop": chat_with(stop=""),
    "a stop of 900,000 characters": chat_with(stop="x" * 900_000),
    "seed too large": chat_with(seed=2**63),
    "stream a text": chat_with(stream="yes"),
    "model a number": chat_with(model=5),
    "model unknown": chat_with(model="gpt-4"),
    "metadata deep": chat_with(metadata={"a": {"b": {"c": 1}}}),
    "a field nobody knows": chat_with(foo=1),
}


def test_malformed_bodies_are_refused_in_the_right_shape_and_the_server_lives(make_service, client_of):
    client = client_of(make_service(context_length=5000))
    told = ask(client, *[lambda c, body=body: c.post(CHAT, body) for body in MALFORMED.values()], lambda c: c.chat())
    for name, answer in zip(MALFORMED, told, strict=False):
        assert 400 <= answer.status < 500, name
        assert answer.error["type"] == "invalid_request_error", name
        assert len(answer.content) < 600, name
    assert len(MALFORMED) >= 40
    assert told[-1].status == 200


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"content-type", b"text/plain")],
        [(b"content-type", b"application/x-www-form-urlencoded")],
        [(b"content-type", b"application/json; charset=utf-16")],
        [(b"content-type", b"application/json"), (b"content-type", b"text/plain")],
        [(b"content-type", b"application/json"), (b"content-encoding", b"gzip")],
    ],
)
def test_bodies_of_another_media_type_are_refused(make_service, client_of, headers):
    (told,) = ask(client_of(make_service()), lambda c: c.send("POST", CHAT, chat_with(), headers=headers))
    assert told.status == 400
    assert "send" in told.error["message"]


def test_a_body_that_is_too_large_is_refused_before_it_is_read(make_service, client_of):
    client = client_of(make_service(limits=Limits(max_body_bytes=1000)))
    read = []

    def chunks():
        for number in range(64):
            read.append(number)
            yield b" " * 100

    class Lazily:
        def __iter__(self):
            return chunks()

    declared, chunked, fits = ask(
        client,
        lambda c: c.post(CHAT, b"{}", headers=[(b"content-length", b"1001")]),
        lambda c: c.send("POST", CHAT, Lazily(), headers=[(b"content-type", b"application/json")]),
        lambda c: c.post(CHAT, b"{}" + b" " * 998, headers=[(b"content-length", b"1000")]),
    )
    assert declared.status == chunked.status == 413
    assert declared.error["code"] == "request_too_large"
    assert declared.headers["connection"] == "close"
    assert fits.status == 400


def all_routes(app):
    return [route for route in app.routes if isinstance(route, Route)]


def test_every_route_but_health_needs_the_key(make_service, client_of):
    service = make_service(keys=("secret-key",))
    client = client_of(service)
    routes = all_routes(create_app(service))
    paths = {route.path.replace("{name}", "base") for route in routes}
    assert {"/health", "/metrics", "/v1/models", "/v1/models/base", CHAT, "/v1/completions"} <= paths
    calls = [(method, path) for route in routes for method in sorted(route.methods) for path in (route.path,)]
    odd = [
        "//v1/models",
        "/V1/models",
        "/v1/models/",
        "/health/",
        "//health",
        "/Health",
        "/nothing",
        "/docs",
        "/openapi.json",
    ]
    calls += [("GET", path) for path in odd]
    wrong = [
        [],
        [(b"authorization", b"Bearer wrong")],
        [(b"authorization", b"Bearer")],
        [(b"authorization", b"Bearer ")],
        [(b"authorization", b"secret-key")],
        [(b"authorization", b"Token secret-key")],
        [(b"authorization", b"Bearer secret-ke")],
        [(b"authorization", b"Bearer secret-key2")],
        [(b"authorization", b"Basic c2VjcmV0LWtleQ==")],
        [(b"authorization", b"Basic !")],
        [(b"x-api-key", b"secret-key")],
        [(b"authorization", b"Bearer secret-key"), (b"authorization", b"Bearer secret-key")],
    ]
    for method, path in calls:
        for headers in wrong:
            (told,) = ask(
                client, lambda c, m=method, p=path, h=headers: c.send(m, p, headers=h, query=b"key=secret-key")
            )
            assert told.status == (200 if path == "/health" else 401), (method, path, headers)
            if told.status == 401:
                assert told.error["code"] == "invalid_api_key"
                assert b"secret-key" not in told.content


@pytest.mark.parametrize(
    "value", [b"Bearer secret-key", b"bearer secret-key", b"BEARER  secret-key", b"Basic dXNlcjpzZWNyZXQta2V5"]
)
def test_the_key_is_taken_as_bearer_or_as_the_password_of_basic(make_service, client_of, value):
    client = client_of(make_service(keys=("other", "secret-key")))
    (told,) = ask(client, lambda c: c.get("/v1/models", headers=[(b"authorization", value)]))
    assert told.status == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        (b"127.0.0.1:8000", 200),
        (b"localhost", 200),
        (b"LOCALHOST.:8000", 200),
        (b"[::1]:8000", 200),
        (b"192.168.1.7", 200),
        (b"gpu.example:8000", 200),
        (b"evil.example", 421),
        (b"localhost.evil.example", 421),
        (b"127.0.0.1.evil.example", 421),
        (b"", 421),
    ],
)
def test_a_host_name_that_the_server_does_not_know_is_refused(make_service, client_of, host, status):
    client = client_of(make_service(hosts=("gpu.example",)))
    (told,) = ask(client, lambda c: c.get("/v1/models", headers=[(b"host", host)]))
    assert told.status == status
    if status == 421:
        assert "--allow-host" in told.error["message"]


def test_a_star_allows_every_host_name(make_service, client_of):
    (told,) = ask(client_of(make_service(hosts=("*",))), lambda c: c.get("/health", headers=[(b"host", b"any")]))
    assert told.status == 200


def test_a_mistake_of_our_own_is_an_error_without_its_trace_or_message(make_service, client_of, caplog):
    def script(turn):
        raise KeyError(turn.prompt.text)

    with caplog.at_level(logging.INFO, "agon.serve"):
        (told,) = ask(client_of(make_service(script)), lambda c: c.chat("a private problem"))
    assert told.status == 500
    assert told.error == {
        "message": "the server made a mistake: its log says which",
        "type": "server_error",
        "param": None,
        "code": "internal_error",
    }
    assert "KeyError" in caplog.text
    assert "scripted.py" in caplog.text
    assert "private" not in caplog.text


def test_what_the_engine_failed_of_is_told_to_the_client_and_in_the_log(make_service, client_of, caplog):
    client = client_of(make_service(lambda turn: [EngineError("the card fell out")]))
    (told,) = ask(client, lambda c: c.chat("a private problem"))
    assert (told.status, told.error["message"]) == (500, "the card fell out")
    assert "the card fell out" in caplog.text
    assert "private" not in caplog.text


def test_the_loop_goes_on_while_a_long_problem_is_read(make_service, client_of):
    client = client_of(make_service(context_length=5000, limits=Limits(max_body_bytes=10**7)))

    async def main():
        asked = asyncio.create_task(client.chat("x" * 3_000_000))
        longest = 0.0
        while not asked.done():
            started = time.perf_counter()
            assert (await client.get("/health")).status == 200
            await asyncio.sleep(0)
            longest = max(longest, time.perf_counter() - started)
        return await asked, longest

    told, longest = asyncio.run(main())
    assert (told.status, told.error["code"]) == (400, "context_length_exceeded")
    assert longest < 1


def test_the_log_has_one_line_a_request_without_texts_keys_or_lines_of_the_clients(make_service, client_of, caplog):
    client = client_of(make_service(keys=("secret-key",)))
    key = [(b"authorization", b"Bearer secret-key")]
    with caplog.at_level(logging.INFO, "agon.serve"):
        ask(
            client,
            lambda c: c.chat("a private problem", headers=key),
            lambda c: c.get("/v1/models\nforged", query=b"key=secret-key", headers=key),
            lambda c: c.get("/v1/models", headers=[(b"authorization", b"Bearer wrong-key")]),
            lambda c: c.get(f"/{'x' * 90}/secret-key/v1"),
            lambda c: c.get("/v1/models/secret-key", headers=key),
            lambda c: c.get("/sk-proj-abcdefghij0123456789abcdefghij/v1/models"),
        )
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 6
    # draft: 17 prompt tokens; "drafter A: a private problem" and a stop token are 29, and so on.
    assert lines[0].startswith("POST /v1/chat/completions 200 - model=cascade tokens=")
    assert lines[1].startswith("GET /v1/models%0Aforged 404 - model=-")
    assert lines[2].startswith("GET /v1/models 401 invalid_api_key")
    assert lines[3].startswith(f"GET /{'x' * 90}/[redacte 401 ")
    assert lines[4].startswith("GET /v1/models/[redacted] 404 model_not_found")
    assert lines[5].startswith("GET /[redacted]/v1/models 401 ")
    assert not any(word in caplog.text for word in ("private", "secret-key", "wrong-key"))


def test_metrics_count_requests_tokens_and_seconds(make_service, client_of):
    client = client_of(make_service())
    *_, page = ask(
        client,
        lambda c: c.chat(),
        lambda c: c.chat(model="base"),
        lambda c: c.chat(n=0),
        lambda c: c.get("/made/up/path"),
        lambda c: c.get("/metrics"),
    )
    assert page.headers["content-type"].startswith("text/plain")
    lines = page.content.decode().splitlines()
    assert 'agon_requests_total{model="cascade",route="/v1/chat/completions",status="200"} 1.0' in lines
    assert 'agon_requests_total{model="base",route="/v1/chat/completions",status="200"} 1.0' in lines
    assert 'agon_requests_total{model="",route="/v1/chat/completions",status="400"} 1.0' in lines
    assert 'agon_requests_total{model="",route="other",status="404"} 1.0' in lines
    # "1+1" twice; "drafter A: 1+1" and "drafter None: 1+1", each with a stop token.
    assert 'agon_tokens_total{kind="prompt",role="drafter"} 6.0' in lines
    assert 'agon_tokens_total{kind="completion",role="drafter"} 33.0' in lines
    assert 'agon_stage_seconds_count{role="challenger"} 1.0' in lines
    assert "agon_queue_seconds_count 2.0" in lines
    assert "agon_matches_running 0.0" in lines
    assert "agon_requests_waiting 0.0" in lines


def test_two_applications_count_for_themselves(make_service, client_of):
    one, other = client_of(make_service()), client_of(make_service())
    ask(one, lambda c: c.chat())
    (page,) = ask(other, lambda c: c.get("/metrics"))
    assert b"agon_queue_seconds_count 0.0" in page.content
