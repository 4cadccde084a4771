from __future__ import annotations

import asyncio
import time

import pytest

from agon.serve.asgi import ClientGone
from agon.serve.body import parse_object, read_json
from agon.serve.errors import RequestError

SCOPE = {"headers": [(b"content-type", b'application/json; charset="UTF-8"')]}


def receiver(*messages):
    waiting = list(messages)

    async def receive():
        return waiting.pop(0)

    return receive, waiting


def chunk(body, *, more=True):
    return {"type": "http.request", "body": body, "more_body": more}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "Expecting value at character 0"),
        (b"[1]", "it is no object"),
        (b'{"a": 1, "a": 2}', "the key 'a' stands twice"),
        (b'{"a": {"b": 1, "b": 1}}', "the key 'b' stands twice"),
        (b'{"a": NaN}', "NaN is no JSON number"),
        (b'{"a": [-Infinity]}', "-Infinity is no JSON number"),
        (b'{"a": "\xff"}', "byte 7 is not UTF-8"),
        (b'{"a": "\\ud83d"}', "half of a surrogate pair"),
        (b'{"\\ud83d": 1}', "half of a surrogate pair"),
        (b'{"a": ' + b"9" * 5000 + b"}", "thousands of digits"),
        (b'{"a":' * 50_000, "nested too deeply"),
        (b"[" * 1_000_000, "nested too deeply"),
        (b'{"a": 01}', "Expecting ',' delimiter at character 7"),
        (b'{"a": 1,}', "at character 8"),
        (b'{"a": "\n"}', "Invalid control character at at character 7"),
        (b"{'a': 1}", "in double quotes at character 1"),
        (b"\xef\xbb\xbf{}", "BOM"),
    ],
)
def test_what_is_no_strict_json_is_refused_with_the_reason(content, reason):
    with pytest.raises(RequestError) as error:
        parse_object(content)
    assert reason in str(error.value)
    assert (error.value.status, error.value.code) == (400, "invalid_json")


def test_whole_characters_are_taken_however_they_are_spelled():
    assert parse_object(b'{"a": "\\ud83d\\ude00 \\u00e9 \xc3\xa9"}') == {"a": "\U0001f600 é é"}


def test_a_body_comes_in_pieces():
    receive, _ = receiver(chunk(b'{"a'), chunk(b'": 1'), chunk(b""), chunk(b"}", more=False))
    assert asyncio.run(read_json(SCOPE, receive, max_bytes=100)) == {"a": 1}


def test_no_more_is_read_than_the_limit():
    receive, waiting = receiver(*[chunk(b" " * 10)] * 50)
    with pytest.raises(RequestError) as error:
        asyncio.run(read_json(SCOPE, receive, max_bytes=25))
    assert error.value.status == 413
    # 30 bytes are too many: the third piece was the last that was taken.
    assert len(waiting) == 47


@pytest.mark.parametrize("length", [b"26", b"9" * 30])
def test_nothing_is_read_where_too_much_is_announced(length):
    receive, waiting = receiver(chunk(b"{}", more=False))
    scope = {"headers": [*SCOPE["headers"], (b"content-length", length)]}
    with pytest.raises(RequestError) as error:
        asyncio.run(read_json(scope, receive, max_bytes=25))
    assert error.value.status == 413
    assert len(waiting) == 1


def test_a_client_that_leaves_before_it_has_sent_everything_is_gone():
    receive, _ = receiver(chunk(b"{"), {"type": "http.disconnect"})
    with pytest.raises(ClientGone):
        asyncio.run(read_json(SCOPE, receive, max_bytes=100))


def test_the_loop_goes_on_while_a_large_body_is_parsed():
    content = b'{"a": [' + b'{"b": 1},' * 100_000 + b"{}]}"
    receive, _ = receiver(chunk(content, more=False))

    async def main():
        longest, last, is_done = 0.0, time.perf_counter(), False

        async def beat():
            nonlocal longest, last
            while not is_done:
                await asyncio.sleep(0.001)
                longest, last = max(longest, time.perf_counter() - last), time.perf_counter()

        beating = asyncio.create_task(beat())
        tree = await read_json(SCOPE, receive, max_bytes=10**7)
        is_done = True
        await beating
        return longest, tree

    longest, tree = asyncio.run(main())
    assert len(tree["a"]) == 100_001
    assert longest < 1
