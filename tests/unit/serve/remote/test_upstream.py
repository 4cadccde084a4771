"""Endpoints that are busy, refuse, ask for other fields, or are not there."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time

import pytest

from agon.errors import AgonError, ConfigError, EngineError
from agon.match.asking import Sampling
from agon.serve.backend import EndpointError
from agon.serve.endpoints import endpoint_of
from agon.serve.remote.backend import RemoteBackend

NEUTRAL = Sampling(max_draft_tokens=100, max_challenge_tokens=200, max_summary_tokens=50)
KEY = "key-of-the-drafter-1234"


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("stream_options", {"message": "Unknown field: stream_options", "param": None}),
        ("seed", {"message": "Extra inputs are not permitted", "param": "seed"}),
        ("stop", {"message": "Unsupported parameter: 'stop' is not supported with this model.", "param": "stop"}),
        ("top_p", "top_p is not supported"),
    ],
)
def test_a_field_that_an_endpoint_does_not_take_is_left_out_if_nothing_is_lost(trial, name, error, caplog):
    def script(seen):
        seen.refuse(400, error) if name in seen.body else seen.answer("fine", usage=None)

    async def play(backend, endpoint, *_):
        for _ in range(2):
            pieces = await trial.sample(backend, trial.job("drafter", sampling=NEUTRAL, stop=("END",)))
        return pieces, endpoint.chats

    with caplog.at_level(logging.WARNING):
        pieces, chats = trial.run(play, script)
    assert pieces[-1].ended.completion.text == "fine"
    # It is learned once, and told once.
    assert [name in body for body in chats] == [True, False, False]
    assert all(len(chats[0]) - len(body) == 1 for body in chats[1:])
    assert [record.message.partition(", which")[0] for record in caplog.records] == [
        f"the drafter's endpoint does not take {name}"
    ]


def test_validation_errors_of_fastapi_name_their_field_and_quote_nothing(trial):
    detail = [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs", "input": "secret question"}]

    def script(seen):
        if "seed" in seen.body:
            seen.send("422 No\r\nContent-Type: application/json", json.dumps({"detail": detail}))
        else:
            seen.refuse(422, "something else")

    error, endpoint = trial.refused(script)
    assert len(endpoint.chats) == 2
    assert str(error) == "the drafter's endpoint refused the request (422): something else"
    detail[0]["loc"] = ["body", "messages"]
    error, _ = trial.refused(lambda seen: seen.send("422 No", json.dumps({"detail": detail})))
    assert str(error) == "the drafter's endpoint refused the request (422): body.messages: Extra inputs"


def test_the_cap_goes_by_its_other_name_where_an_endpoint_asks_for_it(trial):
    def script(seen):
        if "max_tokens" in seen.body:
            seen.refuse(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        else:
            seen.answer("fine")

    _, endpoint = trial.drafted(script)
    assert [body.get("max_completion_tokens") for body in endpoint.chats] == [None, 100]


def test_a_cap_that_is_too_large_is_an_error(trial):
    message = "'max_tokens' or 'max_completion_tokens' is too large: 100"
    error, endpoint = trial.refused(lambda seen: seen.refuse(400, {"message": message, "param": "max_tokens"}))
    assert str(error) == f"the drafter's endpoint refused the request (400): max_tokens: {message}".replace(
        "max_tokens: '", "'"
    )
    assert error.status == 400
    assert len(endpoint.chats) == 2


def test_what_a_client_set_is_refused_and_not_left_out(trial):
    message = "Unsupported value: 'temperature' does not support 0.7 with this model."
    error, endpoint = trial.refused(lambda seen: seen.refuse(400, {"message": message}))
    assert str(error) == f"the drafter's endpoint refused the request (400): {message}"
    assert (error.status, len(endpoint.chats)) == (400, 1)


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_endpoint_is_asked_again(trial, status):
    busy = trial.in_turn(*[lambda seen: seen.refuse(status, "later")] * 3, lambda seen: seen.answer("fine"))
    pieces, endpoint = trial.drafted(busy)
    assert pieces[-1].ended.completion.text == "fine"
    assert len(endpoint.chats) == 4


def test_a_busy_endpoint_is_not_asked_for_ever(trial):
    error, endpoint = trial.refused(lambda seen: seen.refuse(429, "later", "Retry-After: 0"))
    assert str(error) == "the drafter's endpoint is busy or over its limit (429): later"
    assert (error.status, error.retry_after_s, len(endpoint.chats)) == (503, 0.0, 4)


def test_an_endpoint_that_asks_to_wait_is_waited_for(trial):
    script = trial.in_turn(lambda seen: seen.refuse(503, "later", "Retry-After: 0.3"), lambda seen: seen.answer("fine"))
    began = time.perf_counter()
    trial.drafted(script)
    assert time.perf_counter() - began > 0.3


def test_a_long_wait_is_left_to_the_client(trial):
    error, endpoint = trial.refused(lambda seen: seen.refuse(429, "later", "Retry-After: 3600"))
    assert (error.status, error.retry_after_s, len(endpoint.chats)) == (503, 3600.0, 1)


def test_a_spent_quota_is_not_waited_for(trial):
    error, endpoint = trial.refused(
        lambda seen: seen.refuse(429, {"message": "No money", "code": "insufficient_quota"})
    )
    assert "No money" in str(error)
    assert len(endpoint.chats) == 1


def test_a_connection_that_closes_without_an_answer_is_tried_again(trial):
    pieces, endpoint = trial.drafted(trial.in_turn(lambda seen: seen.writer.close(), lambda seen: seen.answer("fine")))
    assert pieces[-1].ended.completion.text == "fine"
    assert len(endpoint.chats) == 2


def test_an_endpoint_that_is_gone_is_tried_again_and_then_an_error(trial):
    async def play(backend, endpoint):
        endpoint.server.close()
        await backend.close()
        gone = RemoteBackend(*_endpoints(endpoint.url), backoff_s=0.001)
        with pytest.raises(EndpointError, match=r"^the drafter's endpoint cannot be reached: ") as raised:
            await trial.sample(gone, trial.job())
        await gone.close()
        return raised.value

    assert trial.run(play, lambda seen: seen.answer("fine")).status == 502


def test_an_endpoint_that_comes_back_in_time_is_not_missed(trial):
    async def play(backend, endpoint):
        port = endpoint.port
        endpoint.server.close()
        late = trial.endpoint(lambda seen: seen.answer("fine"))
        patient = RemoteBackend(*_endpoints(endpoint.url), backoff_s=0.1)
        waiting = asyncio.create_task(trial.sample(patient, trial.job()))
        await asyncio.sleep(0.05)
        await late.start(port)
        pieces = await waiting
        await patient.close()
        await late.close()
        return pieces

    assert trial.run(play, lambda seen: seen.answer("x"))[-1].ended.completion.text == "fine"


def _endpoints(url: str):
    return [endpoint_of(name, url, "m", environ={}) for name in ("drafter", "challenger")]


@pytest.mark.parametrize(
    ("script", "says", "status"),
    [
        (lambda seen: seen.send("502 Bad\r\nContent-Type: text/html", "<html>a\nb</html>"), "failed (502)", 502),
        (lambda seen: seen.send("500 Bad", b"\xff\xfe"), "failed (500)", 502),
        (lambda seen: seen.refuse(500, {"message": "one\n two"}), "failed (500): one two", 502),
        (
            lambda seen: seen.send("404 No", '{"object": "error", "message": "no such model"}'),
            "failed (404): no such model",
            502,
        ),
        (
            lambda seen: seen.send("200 OK\r\nContent-Type: text/html; charset=utf-8", "<html>"),
            "sent no stream of events, though one was asked for",
            502,
        ),
        (
            lambda seen: seen.send("200 OK\r\nContent-Type: application/json", '{"error": "overloaded"}'),
            "sent no stream: overloaded",
            502,
        ),
        (lambda seen: seen.send("200 OK", "plain words"), "ended its stream before the completion was finished", 502),
        (
            lambda seen: seen.send("307 Go\r\nLocation: https://else.example/v1?key=abc"),
            "redirects to https://else.example (307), which is not followed: give the address it redirects to",
            502,
        ),
        (lambda seen: seen.refuse(401, f"bad key {KEY}"), "wants a key (401): set AGON_DRAFTER_KEY", 502),
        (lambda seen: seen.refuse(400, "x" * 5000), f"refused the request (400): {'x' * 300}…", 400),
        (lambda seen: seen.send("413 No"), "refused the request (413)", 400),
        (lambda seen: seen.writer.write(b"SSH-2.0-OpenSSH\r\n\r\n"), "does not speak HTTP", 502),
    ],
)
def test_whatever_stands_in_for_an_answer_is_an_error_in_one_line(trial, script, says, status):
    error, _ = trial.refused(script)
    assert str(error) == f"the drafter's endpoint {says}"
    assert error.status == status


def test_a_key_goes_to_its_own_endpoint_and_is_nowhere_else(trial, caplog):
    def script(seen):
        seen.refuse(400, f"do not say Bearer {KEY} nor {KEY}")

    async def play(backend, drafter, challenger):
        with pytest.raises(EndpointError) as raised:
            await trial.sample(backend, trial.job("drafter"))
        await trial.sample(backend, trial.job("challenger"))
        return str(raised.value), drafter, challenger

    with caplog.at_level(logging.DEBUG):
        message, drafter, challenger = trial.run(
            play, script, lambda seen: seen.answer("x"), environ={"AGON_DRAFTER_KEY": KEY, "OPENAI_API_KEY": "sk-else"}
        )
    assert KEY not in message
    assert "do not say" in message
    assert {seen.headers["authorization"] for seen in drafter.seen} == {f"Bearer {KEY}"}
    assert not any("authorization" in seen.headers for seen in challenger.seen)
    assert caplog.records
    assert KEY not in caplog.text


def test_a_refused_key_is_told_by_the_name_of_its_variable(trial):
    error, _ = trial.refused(
        lambda seen: seen.refuse(403, f"Incorrect key {KEY[:6]}***"), environ={"AGON_DRAFTER_KEY": KEY}
    )
    assert str(error) == "the drafter's endpoint refuses the key that it was given (403): check AGON_DRAFTER_KEY"


def test_a_cookie_of_one_answer_does_not_go_out_with_the_next_request(trial):
    def script(seen):
        kind = "Content-Type: text/event-stream\r\nSet-Cookie: session=abc; Path=/"
        seen.send(f"200 OK\r\n{kind}", 'data: {"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}\n\n')

    async def play(backend, endpoint):
        await trial.sample(backend, trial.job("drafter"))
        await trial.sample(backend, trial.job("drafter"))
        return endpoint.seen

    assert not any("cookie" in seen.headers for seen in trial.run(play, script))


def started(trial, models, model=None, script=None, **options):
    """Start a backend over an endpoint with this list of models, and return the names that it found."""

    async def play(backend, endpoint):
        await backend.start()
        return backend.models

    script = script or (lambda seen: seen.refuse(500, "no"))
    return trial.run(play, script, models=models, start=False, model=model, other=model, **options)


def test_the_only_model_is_taken(trial):
    assert started(trial, {"object": "list", "data": [{"id": "tiny"}]}) == {"A": "tiny", "B": "tiny"}
    assert started(trial, {"data": [{"id": "a"}, {"id": "b"}]}, "b") == {"A": "b", "B": "b"}


def test_a_model_that_is_not_listed_but_known_by_its_name_is_taken(trial):
    assert (
        started(trial, {"data": [{"id": "llama3:latest"}], "llama3": {"id": "llama3:latest"}}, "llama3")["A"]
        == "llama3"
    )


@pytest.mark.parametrize(
    ("models", "model", "says"),
    [
        ({"data": [{"id": "a"}, {"id": "b"}]}, None, "has 'a', 'b': choose one by --drafter-model"),
        ({"data": []}, None, "has no model in its list: choose one by --drafter-model"),
        ({"data": [{"id": "a"}]}, "b", "has no model 'b', but 'a'"),
        ({"data": [{"id": str(n)} for n in range(99)]}, "b", "'6', '7' and 91 more"),
        ({"data": 7}, None, "no list of models: is this its base URL?"),
        ("<html>", None, "no list of models: is this its base URL?"),
        ({"data": [{"id": "line\nbreak"}, {"id": "b"}]}, None, r"has 'line\nbreak', 'b'"),
    ],
)
def test_a_start_without_the_model_is_refused_in_one_line(trial, models, model, says):
    with pytest.raises(AgonError, match=r"^the drafter's endpoint http://127\.0\.0\.1:\d+/v1 ") as raised:
        started(trial, models, model)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_start_without_an_endpoint_is_refused():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        backend = RemoteBackend(*(endpoint_of(name, url, environ={}) for name in ("drafter", "challenger")))
        with pytest.raises(EngineError, match=rf"^the drafter's endpoint {url}/v1 cannot be reached: "):
            asyncio.run(backend.start())


@pytest.mark.parametrize(
    ("status", "environ", "says"),
    [
        (401, {}, r"wants a key \(401\): set AGON_DRAFTER_KEY"),
        (403, {"AGON_DRAFTER_KEY": KEY}, r"refuses the key that it was given \(403\): check AGON_DRAFTER_KEY"),
        (404, {}, r"failed \(404\): nothing here"),
        (302, {}, "redirects"),
    ],
)
def test_a_start_that_is_not_let_in_is_refused(trial, status, environ, says):
    with pytest.raises(EngineError, match=rf"^the drafter's endpoint http://127\.0\.0\.1:\d+/v1 {says}"):
        started(trial, [], script=lambda seen: seen.refuse(status, "nothing here"), environ=environ)


def test_a_model_must_be_chosen_where_the_second_endpoint_has_several(trial):
    async def play(backend, drafter, challenger):
        challenger.models = {"data": [{"id": "a"}, {"id": "b"}]}
        with pytest.raises(ConfigError, match="--challenger-model"):
            await backend.start()

    trial.run(play, lambda seen: None, lambda seen: None, start=False)
