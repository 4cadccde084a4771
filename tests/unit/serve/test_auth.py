from __future__ import annotations

import asyncio

import pytest

from agon.serve.auth import KeyCheck, read_keys
from agon.serve.errors import RequestError
from agon.serve.request_log import LogEntry


@pytest.mark.parametrize(
    ("text", "keys"),
    [("", ()), (" , \n", ()), ("one", ("one",)), ("one, two\nthree,", ("one", "two", "three")), ("a=b+/", ("a=b+/",))],
)
def test_keys_stand_between_commas_or_on_lines(text, keys):
    assert read_keys(text) == keys


def client_behind(keys, *headers, path="/v1/models"):
    """For whom the queue keeps turns, after the check."""
    scope = {"type": "http", "path": path, "headers": list(headers), "agon": LogEntry("10.0.0.1", 0.0)}

    async def app(scope, receive, send):
        pass

    asyncio.run(KeyCheck(app, keys)(scope, None, None))
    return scope["agon"].client


def test_of_several_keys_each_is_a_client_and_one_key_is_shared():
    two = [(b"authorization", b"Bearer two")]
    assert client_behind(("one", "two"), *two) == "key 1"
    assert client_behind(("two",), *two) == "10.0.0.1"
    assert client_behind(()) == "10.0.0.1"


def test_a_key_may_have_letters_of_any_script_and_a_password_may_have_colons():
    # Base64 of "user:pass:word", and of "user:schlüssel" in UTF-8.
    assert client_behind(("pass:word", "x"), (b"authorization", b"Basic dXNlcjpwYXNzOndvcmQ=")) == "key 0"
    assert client_behind(("schlüssel", "x"), (b"authorization", b"Basic dXNlcjpzY2hsw7xzc2Vs")) == "key 0"


@pytest.mark.parametrize("header", [b"", b"Basic", b"Basic dXNlcg==", b"Basic =", b"Bearer\xff", b"Digest two"])
def test_what_is_no_key_is_refused_and_says_what_is_wanted(header):
    with pytest.raises(RequestError) as error:
        client_behind(("two",), (b"authorization", header))
    assert error.value.status == 401
    asked = [value for name, value in error.value.headers if name == b"www-authenticate"]
    assert asked == [b"Bearer", b'Basic realm="agon", charset="UTF-8"']


def test_health_alone_is_open():
    assert client_behind(("two",), path="/health") == "10.0.0.1"
    for path in ("/health/", "//health", "/healthy", "/v1/health"):
        with pytest.raises(RequestError):
            client_behind(("two",), path=path)
