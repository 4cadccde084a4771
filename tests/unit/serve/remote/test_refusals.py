"""What errors of endpoints are told as."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from agon.serve.remote.refusals import failure, one_line, reason_in, retry_after_s


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(None, None), ("7", 7.0), (" 0.5 ", 0.5), ("soon", None), ("-3", None), ("", None), ("1e9", None)],
)
def test_a_wait_is_read_in_seconds(value, seconds):
    assert retry_after_s(value) == seconds


def test_a_wait_is_read_until_a_date():
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert retry_after_s(later) == pytest.approx(60, abs=3)
    assert retry_after_s("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"error": {"message": "one\\n two", "type": "x"}}', "one two"),
        (b'{"error": "said so"}', "said so"),
        (b'{"object": "error", "message": "vLLM says"}', "vLLM says"),
        (b'{"detail": [{"loc": ["body", "seed"], "msg": "no", "input": "secret"}]}', "body.seed: no"),
        (b'{"error": {"message": "no", "param": "seed"}}', "seed: no"),
        (b'{"error": {"message": "no seed", "param": "seed"}}', "no seed"),
        (b'{"question": "secret"}', ""),
        (b"<html>secret</html>", ""),
        (b"", ""),
        (b"7", ""),
        (b'{"error": ' * 5000 + b"7" + b"}" * 5000, ""),
    ],
)
def test_the_reason_is_the_message_alone(body, reason):
    assert reason_in(body) == reason


def test_a_line_is_bounded_and_holds_no_secret():
    assert one_line("a\n\tb  c") == "a b c"
    assert one_line("x" * 400) == "x" * 300 + "…"
    assert "abcdefgh" not in one_line("key sk-abcdefghijklmnopqrstuvwx and Bearer abcdefghijk")


@pytest.mark.parametrize(
    ("error", "reason", "can_wait", "status"),
    [
        (httpx.ReadTimeout(""), "did not answer in time", False, 504),
        (httpx.ConnectTimeout(""), "cannot be reached: no connection in time", True, 502),
        (httpx.ConnectError("no\nroute"), "cannot be reached: no route", True, 502),
        (httpx.ConnectError("[SSL: BAD] x"), "cannot be reached: [SSL: BAD] x", False, 502),
        (httpx.ReadError(""), "closed the connection without an answer", True, 502),
        (httpx.WriteError(""), "closed the connection without an answer", True, 502),
        (httpx.RemoteProtocolError("illegal status line"), "does not speak HTTP", False, 502),
        (httpx.ProxyError("no proxy"), "cannot be asked: no proxy", False, 502),
        (httpx.WriteTimeout(""), "cannot be asked: WriteTimeout", False, 502),
    ],
)
def test_only_what_may_pass_is_waited_for(error, reason, can_wait, status):
    told = failure(error)
    assert (told.reason, told.can_wait, told.status) == (reason, can_wait, status)
