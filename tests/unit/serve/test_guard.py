from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvicorn

from agon.serve.guard import Bounds, bounds_for, guarded

GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
LARGE, LONG_S = 10**9, 60.0


def bounds(**given) -> Bounds:
    """Give bounds that nothing here reaches, but those given."""
    return Bounds(**{"max_message_bytes": LARGE, "message_s": LONG_S, "head_s": LONG_S, "unread_s": LONG_S, **given})


async def echo(scope, receive, send):
    """Answer with the size of the body."""
    size, has_more = 0, True
    while has_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, has_more = size + len(message["body"]), message["more_body"]
    await answer(send, str(size).encode())


async def answer(send, content):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(content))]})
    await send({"type": "http.response.body", "body": content})


@asynccontextmanager
async def serving(app, given):
    """Run a server behind guards; give a function that connects to it, and one that tells whether nobody is connected."""
    config = uvicorn.Config(app, http=guarded(given), ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        running = asyncio.create_task(server.serve(sockets=[taken]))
        while not server.started:
            await asyncio.sleep(0.01)

        @asynccontextmanager
        async def connect():
            reader, writer = await asyncio.open_connection(*taken.getsockname())
            try:
                yield reader, writer
            finally:
                writer.transport.abort()
                # Until the transport has told its stream.
                await asyncio.sleep(0)

        try:
            yield connect, lambda: not server.server_state.connections
        finally:
            server.should_exit = server.force_exit = True
            await running


def play(app, given, scene: Callable[..., Awaitable[None]]) -> None:
    async def all_of_it():
        async with asyncio.timeout(20), serving(app, given) as (connect, is_lost):
            await scene(connect, is_lost)

    asyncio.run(all_of_it())


async def rest_of(reader) -> bytes:
    """Read until the connection ends, in peace or not."""
    received = b""
    try:
        while more := await reader.read(65536):
            received += more
    except ConnectionError:
        pass
    return received


@pytest.mark.parametrize("piece", [b"a" * 500, b"x-a: 1\r\n" * 50], ids=["one header", "many headers"])
def test_a_head_that_is_too_large_is_refused_in_openais_shape(piece):
    async def scene(connect, is_lost):
        async with connect() as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nx: ")
            for _ in range(10):
                await asyncio.sleep(0.02)
                writer.write(piece)
            head, _, content = (await rest_of(reader)).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 431 ")
            assert json.loads(content)["error"]["type"] == "invalid_request_error"

    play(echo, bounds(max_head_bytes=1000), scene)


def test_a_head_within_its_bound_is_answered_however_it_is_cut():
    async def scene(connect, is_lost):
        async with connect() as (reader, writer):
            for _ in range(2):
                for at in range(len(GET)):
                    writer.write(GET[at : at + 1])
                    await asyncio.sleep(0)
                assert (await reader.readuntil(b"\r\n\r\n0")).startswith(b"HTTP/1.1 200 ")

    play(echo, bounds(max_head_bytes=200, max_message_bytes=200), scene)


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"\r\n",
        b"GET / HTT",
        b"POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\n12",
        GET[:-2] + b"transfer-encoding: chunked\r\n\r\n1\r\n",
    ],
    ids=["nothing", "a line", "half a head", "half a body", "half a chunk"],
)
def test_a_request_that_does_not_arrive_in_time_loses_its_connection(begun):
    async def scene(connect, is_lost):
        async with connect() as (reader, writer):
            writer.write(begun)
            assert await rest_of(reader) == b""

    play(echo, bounds(head_s=0.2, message_s=0.2), scene)


def test_pieces_that_keep_coming_win_no_time():
    async def scene(connect, is_lost):
        async with connect() as (_, writer):
            writer.write(b"GET / HTTP/1.1\r\n")
            started = asyncio.get_running_loop().time()
            while not is_lost():
                writer.write(b"x: 1\r\n")
                await asyncio.sleep(0.02)
            assert asyncio.get_running_loop().time() - started < 5

    play(echo, bounds(head_s=0.2), scene)


def test_an_answer_may_take_longer_than_its_request():
    async def slow(scope, receive, send):
        await asyncio.sleep(0.5)
        await echo(scope, receive, send)

    async def scene(connect, is_lost):
        async with connect() as (reader, writer):
            writer.write(b"POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\n123")
            await asyncio.sleep(0.05)
            writer.write(b"456789")
            assert await reader.readuntil(b"\r\n\r\n9")
            await asyncio.sleep(0.5)
            writer.write(GET)
            assert await reader.readuntil(b"\r\n\r\n0")

    play(slow, bounds(head_s=0.3, message_s=0.3), scene)


@pytest.mark.parametrize("extra", [b"x: 1\r\n", b"a"], ids=["trailers", "one trailer"])
def test_trailers_without_end_lose_the_connection(extra):
    async def scene(connect, is_lost):
        async with connect() as (_, writer):
            writer.write(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n")
            while not is_lost():
                writer.write(extra * 100)
                await asyncio.sleep(0.01)

    play(echo, bounds(max_message_bytes=2000), scene)


def test_a_body_of_one_byte_chunks_is_within_what_its_size_allows():
    async def scene(connect, is_lost):
        async with connect() as (reader, writer):
            writer.write(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n")
            for _ in range(30):
                writer.write(b"1\r\nx\r\n" * 100)
                await asyncio.sleep(0.002)
            writer.write(b"0\r\n\r\n")
            assert await reader.readuntil(b"\r\n\r\n3000")

    play(echo, bounds_for(3000), scene)


def test_a_body_that_nobody_reads_does_not_spoil_the_next_request():
    async def refuse(scope, receive, send):
        await answer(send, b"refused")

    async def scene(connect, is_lost):
        async with connect() as (reader, writer):
            writer.write(b"POST / HTTP/1.1\r\ncontent-length: 2000\r\n\r\n")
            assert await reader.readuntil(b"refused")
            for _ in range(20):
                writer.write(b"a" * 100)
                await asyncio.sleep(0.01)
            writer.write(GET)
            assert await reader.readuntil(b"refused")

    play(refuse, bounds(max_head_bytes=500), scene)


@pytest.mark.parametrize("is_whole", [True, False])
def test_whoever_does_not_read_loses_the_connection(is_whole):
    ends = []

    async def flood(scope, receive, send):
        content = b"a" * 2**26
        length = len(content) if is_whole else 10 * len(content)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % length)]})
        await send({"type": "http.response.body", "body": content, "more_body": not is_whole})
        if not is_whole:
            await send({"type": "http.response.body", "body": content, "more_body": True})
        ends.append((await receive())["type"])

    async def scene(connect, is_lost):
        async with connect() as (_, writer):
            writer.transport.pause_reading()
            writer.write(GET)
            while not (is_lost() and ends):
                await asyncio.sleep(0.02)
            assert ends == ["http.disconnect"]

    play(flood, bounds(unread_s=0.3), scene)


def test_requests_sent_at_once_are_answered_in_turn():
    async def scene(connect, is_lost):
        async with connect() as (reader, writer):
            writer.write(GET * 3)
            for _ in range(3):
                assert (await reader.readuntil(b"\r\n\r\n0")).startswith(b"HTTP/1.1 200 ")

    play(echo, bounds(), scene)


@pytest.mark.parametrize("num_requests", [1, 3])
def test_whoever_is_being_answered_hears_that_the_client_left(caplog, num_requests):
    told = []

    async def wait(scope, receive, send):
        while (message := await receive())["type"] != "http.disconnect":
            told.append("begun")
        told.append(message["type"])
        await answer(send, b"nobody reads this")

    async def scene(connect, is_lost):
        async with connect() as (_, writer):
            writer.write(GET * num_requests)
            while not told:
                await asyncio.sleep(0.01)
        while len(told) < 2:
            await asyncio.sleep(0.01)
        # Those behind it are not begun.
        assert told == ["begun", "http.disconnect"]

    play(wait, bounds(), scene)
    assert not caplog.records
