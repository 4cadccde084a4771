from __future__ import annotations

import asyncio
import json
import random
import time
import uuid

import pytest

from agon.errors import EngineError
from agon.serve.access import Limits
from agon.serve.backend import EndpointError

LONG = 60.0


def draft_seconds(turn):
    return LONG if turn.role == "drafter" else 0.0


def challenge_seconds(turn):
    return LONG if turn.role == "challenger" else 0.0


async def settled(condition):
    """Wait for what must be so at once, give or take a few turns of the loop."""
    async with asyncio.timeout(2):
        while not condition():
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("seconds", [draft_seconds, challenge_seconds])
@pytest.mark.parametrize("fields", [{}, {"stream": True}, {"stream": True, "include_draft": True}, {"n": 3}])
def test_a_client_that_leaves_takes_its_stages_along(make_service, client_of, seconds, fields):
    service = make_service(seconds=seconds)
    backend = service.backend
    wanted = fields.get("n", 1)

    async def leaves():
        await settled(
            lambda: backend.num_open == wanted and backend.num_ended == wanted * (seconds is challenge_seconds)
        )

    async def main():
        told = await client_of(service).chat(leaves=leaves, **fields)
        assert (backend.num_open, backend.num_given_up) == (0, wanted)
        assert (service.admission.num_running, service.admission.num_waiting) == (0, 0)
        assert not service.connections
        page = service.metrics.page().decode()
        assert 'agon_cancelled_total{reason="client"} 1.0' in page
        assert 'route="/v1/chat/completions",status="499"} 1.0' in page
        return told

    started = time.perf_counter()
    told = asyncio.run(main())
    assert time.perf_counter() - started < 2
    # A stream begins with what is sampled first.
    assert told.status == (200 if fields.get("stream") and seconds is challenge_seconds else 0)
    assert b"[DONE]" not in told.content
    assert b"error" not in told.content


def test_a_client_that_leaves_the_queue_gives_its_place_to_the_next(make_service, client_of):
    service = make_service(max_running=1, seconds=0.05)
    client = client_of(service)

    async def main():
        async def leaves():
            await settled(lambda: service.admission.num_waiting == 2)

        first = asyncio.create_task(client.chat("first"))
        await settled(lambda: service.admission.num_running == 1)
        second = asyncio.create_task(client.chat("second", leaves=leaves))
        third = asyncio.create_task(client.chat("third"))
        return [await task for task in (first, second, third)]

    first, second, third = asyncio.run(main())
    assert (first.status, second.status, third.status) == (200, 0, 200)
    # Two stages each: the second never played.
    assert service.backend.num_ended == 4
    assert service.admission.num_running == 0


def test_a_deadline_is_an_error_and_frees_the_slot(make_service, client_of):
    service = make_service(seconds=LONG, limits=Limits(timeout_s=0.05))
    client = client_of(service)
    told = asyncio.run(client.chat())
    assert told.status == 504
    assert (told.error["type"], told.error["code"]) == ("timeout_error", "deadline_exceeded")
    assert "0.05 s" in told.error["message"]
    assert (service.backend.num_open, service.admission.num_running) == (0, 0)
    assert b'agon_cancelled_total{reason="deadline"} 1.0' in service.metrics.page()


def test_a_deadline_in_the_queue_is_an_error_too(make_service, client_of):
    service = make_service(max_running=1, limits=Limits(timeout_s=0.05))
    client = client_of(service)

    async def main():
        async with service.admission.admit("another"):
            return await client.chat(stream=True)

    told = asyncio.run(main())
    assert (told.status, told.error["code"]) == (504, "deadline_exceeded")
    assert service.admission.num_waiting == 0


def test_a_slow_body_meets_the_deadline(make_service, client_of):
    service = make_service(limits=Limits(timeout_s=0.05))
    client = client_of(service)

    async def main():
        async def receive():
            await asyncio.sleep(LONG)

        sent = []

        async def send(message):
            sent.append(message)

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/chat/completions",
            "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        }
        await client.app(scope, receive, send)
        return sent

    assert asyncio.run(main())[0]["status"] == 504


def test_a_deadline_in_mid_stream_is_an_event_and_no_end_that_looks_well(make_service, client_of):
    service = make_service(seconds=challenge_seconds, num_pieces=4, limits=Limits(timeout_s=0.1))
    told = asyncio.run(client_of(service).chat(stream=True, include_draft=True))
    assert told.status == 200
    *before, last = told.events
    assert last["error"]["code"] == "deadline_exceeded"
    assert "[DONE]" not in told.events
    assert all(chunk["choices"][0]["finish_reason"] is None for chunk in before)
    assert service.backend.num_open == 0


def test_an_engine_error_in_mid_stream_is_an_event_and_frees_the_slot(make_service, client_of):
    def script(turn):
        return "a draft" if turn.role == "drafter" else ["a chal", EngineError("the card fell out\nof the machine")]

    service = make_service(script)
    client = client_of(service)
    streamed, whole = asyncio.run(client.chat(stream=True)), asyncio.run(client.chat())
    *before, last = streamed.events
    assert before[-1]["choices"][0]["delta"] == {"content": "a chal"}
    assert last == {
        "error": {
            "message": "the card fell out of the machine",
            "type": "server_error",
            "param": None,
            "code": "engine_error",
        }
    }
    assert all(chunk["choices"][0]["finish_reason"] is None for chunk in before)
    assert whole.status == 500
    assert whole.error == last["error"]
    assert service.admission.num_running == 0
    assert b'agon_errors_total{code="engine_error"} 2.0' in service.metrics.page()


def test_an_error_of_one_match_ends_the_others_of_the_request(make_service, client_of):
    def script(turn):
        return [EngineError("one broke")] if turn.place == 1 else "fine"

    service = make_service(script, seconds=lambda turn: 0.0 if turn.place == 1 else LONG)
    told = asyncio.run(client_of(service).chat(n=4))
    assert told.status == 500
    assert (service.backend.num_open, service.admission.num_running) == (0, 0)


def test_a_full_queue_is_told_with_the_time_to_wait(make_service, client_of):
    service = make_service(max_running=1, max_queue=1, seconds=0.1)
    client = client_of(service)

    async def main():
        tasks = [asyncio.create_task(client.chat(stream=stream)) for stream in (False, True, True, False)]
        return [await task for task in tasks]

    told = asyncio.run(main())
    assert [one.status for one in told] == [200, 200, 429, 429]
    for refused in told[2:]:
        assert int(refused.headers["retry-after"]) >= 1
        assert (refused.error["type"], refused.error["code"]) == ("rate_limit_error", "queue_full")


def test_more_choices_than_matches_may_run_are_refused(make_service, client_of):
    told = asyncio.run(client_of(make_service(max_running=2)).chat(n=3))
    assert told.status == 400
    assert "at most 2" in told.error["message"]


@pytest.mark.parametrize("by_key", [False, True])
def test_clients_take_turns_however_many_requests_one_of_them_sends(make_service, client_of, by_key):
    order = []

    def script(turn):
        if turn.role == "drafter":
            order.append(turn.problem.question)
        return "text"

    service = make_service(script, max_running=1, seconds=0.005, keys=("k1", "k2") if by_key else ())
    client = client_of(service)

    def ask(name, number):
        key = [(b"authorization", b"Bearer k1" if name == "greedy" else b"Bearer k2")] if by_key else []
        peer = "10.0.0.1" if by_key or name == "greedy" else "10.0.0.2"
        return client.chat(f"{name} {number}", headers=key, peer=peer)

    async def main():
        greedy = [asyncio.create_task(ask("greedy", number)) for number in range(6)]
        await settled(lambda: service.admission.num_waiting == 5)
        modest = [asyncio.create_task(ask("modest", number)) for number in range(2)]
        await asyncio.gather(*greedy, *modest)

    asyncio.run(main())
    assert order.index("modest 0") <= 2
    assert order.index("modest 1") <= 4


def test_a_server_that_ends_lets_run_what_runs_and_refuses_what_waits_and_comes(make_service, client_of):
    service = make_service(max_running=1, seconds=0.1)
    client = client_of(service)

    async def main():
        running = asyncio.create_task(client.chat(stream=True))
        await settled(lambda: service.backend.num_open == 1)
        waiting = asyncio.create_task(client.chat())
        await settled(lambda: service.admission.num_waiting == 1)
        draining = asyncio.create_task(service.drain(5))
        await asyncio.sleep(0)
        late, health = await client.chat(), await client.get("/health")
        await draining
        return await running, await waiting, late, health

    running, waiting, late, health = asyncio.run(main())
    assert running.events[-1] == "[DONE]"
    assert (waiting.status, late.status, health.status) == (503, 503, 503)
    assert waiting.error["code"] == late.error["code"] == "shutting_down"
    assert health.json["status"] == "failed"


def test_what_runs_beyond_the_grace_is_given_up_and_told_so(make_service, client_of):
    service = make_service(seconds=LONG)
    client = client_of(service)

    async def main():
        whole, streamed = asyncio.create_task(client.chat()), asyncio.create_task(client.chat(stream=True))
        await settled(lambda: service.backend.num_open == 2)
        await service.drain(0.02)
        return await whole, await streamed

    whole, streamed = asyncio.run(main())
    assert whole.status == 503
    assert whole.error["code"] == "shutting_down"
    assert (streamed.status, streamed.error["code"]) == (503, "shutting_down")
    assert service.backend.num_open == 0
    assert b'agon_cancelled_total{reason="shutdown"} 2.0' in service.metrics.page()


@pytest.mark.parametrize("fields", [{}, {"include_draft": True}, {"n": 2}])
def test_a_stream_whose_first_stage_is_refused_is_answered_by_the_status_of_that(make_service, client_of, fields):
    def refusing(turn):
        raise EndpointError("the drafter is busy", status=429, retry_after_s=6.5)

    told = asyncio.run(client_of(make_service(refusing)).chat(stream=True, **fields))
    assert (told.status, told.headers["retry-after"], told.error["code"]) == (429, "7", "endpoint_error")


def test_a_stream_whose_second_stage_is_refused_ends_by_an_error_in_it(make_service, client_of):
    def refusing(turn):
        if turn.role == "challenger":
            raise EndpointError("the challenger is busy", status=429, retry_after_s=6.5)
        return "a draft"

    told = asyncio.run(client_of(make_service(refusing)).chat(stream=True))
    assert told.status == 200
    assert [event["choices"][0]["delta"] for event in told.events[:-1]] == [{"role": "assistant", "content": ""}]
    assert told.events[-1]["error"]["code"] == "endpoint_error"


def test_a_stream_by_http_1_0_is_refused_and_a_whole_answer_is_not(make_service, client_of):
    async def main(stream):
        body = json.dumps({"messages": [{"role": "user", "content": "1+1"}], "stream": stream}).encode()
        headers = [(b"content-type", b"application/json")]
        return await client_of(make_service()).send(
            "POST", "/v1/chat/completions", body, headers=headers, version="1.0"
        )

    assert asyncio.run(main(stream=False)).status == 200
    told = asyncio.run(main(stream=True))
    assert (told.status, told.error["param"]) == (400, "stream")
    assert "HTTP/1.1" in told.error["message"]


def test_a_silent_stream_is_kept_alive_by_comments(make_service, client_of):
    service = make_service(seconds=0.12, limits=Limits(keepalive_s=0.03))
    client = client_of(service)
    told = asyncio.run(client.chat(stream=True))
    assert 2 <= told.content.count(b": drafting\n\n") <= 8
    assert told.events[-1] == "[DONE]"
    # Nothing stands before the text of a completion: a comment begins it.
    assert asyncio.run(client.complete(stream=True)).content.startswith(b": drafting\n\n")


def test_a_client_that_does_not_read_loses_its_slot_at_the_deadline(make_service, client_of):
    service = make_service(num_pieces=20, limits=Limits(timeout_s=0.1))

    async def stuck(content):
        await asyncio.sleep(LONG)

    started = time.perf_counter()
    told = asyncio.run(client_of(service).chat(stream=True, on_body=stuck))
    # The deadline, and a second for the farewell.
    assert time.perf_counter() - started < 3
    assert b"[DONE]" not in told.content
    assert (service.backend.num_open, service.admission.num_running) == (0, 0)


def test_after_200_requests_of_which_half_leave_one_is_answered_at_once(make_service, client_of):
    service = make_service(max_running=16, seconds=0.01, num_pieces=3)
    client = client_of(service)
    rng = random.Random(5)

    async def one(number):
        wait = rng.uniform(0, 0.15)
        leaves = (lambda: asyncio.sleep(wait)) if number % 2 else None
        told = await client.chat(f"number {number};", stream=bool(number % 4 // 2), leaves=leaves)
        if leaves is None:
            assert told.status == 200
            assert f"number {number};".encode() in told.content

    async def main():
        await asyncio.gather(*[one(number) for number in range(200)])
        assert (service.backend.num_open, service.admission.num_running, service.admission.num_waiting) == (0, 0, 0)
        assert not service.connections
        async with asyncio.timeout(5):
            return await client.chat()

    assert asyncio.run(main()).status == 200
    assert len(asyncio.run(client.get("/metrics")).content) < 20_000


def test_fifty_parallel_requests_over_all_models_each_get_their_own_answer(make_service, client_of):
    service = make_service(seconds=lambda turn: random.Random(turn.prompt.text).uniform(0, 0.02), num_pieces=5)
    client = client_of(service)
    models = list(service.offer.models)
    # Of drafts that are as likely as each other the first is the answer.
    players = {"cascade": "B", "cascade-b-a": "A", "likeliest": "A", "drafter": "A", "challenger": "B", "base": "None"}

    async def one(number):
        word, model = str(uuid.uuid4()), models[number % len(models)]
        role = "challenger" if model.startswith("cascade") else "drafter"
        if number % 2:
            told = await client.chat(f"say {word}", model=model, stream=True)
            parts = [chunk["choices"][0]["delta"].get("content", "") for chunk in told.events[:-1]]
            text = "".join(parts)
        else:
            told = await client.chat(f"say {word}", model=model)
            text = told.json["choices"][0]["message"]["content"]
            assert told.json["model"] == model
        assert text.startswith(f"{role} {players[model]}: say {word}")
        # A challenge quotes the draft, which quotes the problem.
        assert text.count("say ") == text.count(f"say {word}") == (2 if role == "challenger" else 1)

    async def main():
        await asyncio.gather(*[one(number) for number in range(50)])

    asyncio.run(main())
