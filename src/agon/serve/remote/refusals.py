"""What an endpoint said instead of an answer, in one line that holds no key and no page."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import httpx

from agon.secrecy import REDACTED, redact
from agon.serve.backend import EndpointError
from agon.serve.endpoints import Endpoint

_MAX_BODY_BYTES = 64 * 1024
_MAX_REASON_CHARS = 300
_READ_TIMEOUT_S = 10.0
_BUSY = (429, 503)
_GATEWAY_ERROR, _GATEWAY_TIMEOUT, _UNAVAILABLE, _BAD_REQUEST = 502, 504, 503, 400


class Unusable(Exception):
    """What came from an endpoint cannot be used; the text goes on after "the drafter's endpoint"."""


class Refusal(NamedTuple):
    """Why there is no answer: `reason` goes on after "the drafter's endpoint", `said` is the endpoint's own words.

    `code` is the status the endpoint gave, None where there was none. `can_wait` says that the same request may pass later.
    """

    reason: str
    said: str = ""
    code: int | None = None
    status: int = _GATEWAY_ERROR
    can_wait: bool = False
    retry_after_s: float | None = None

    def error(self, endpoint: Endpoint) -> EndpointError:
        """Return it as the error that is told."""
        return EndpointError(
            f"the {endpoint.name}'s endpoint {self.reason}", status=self.status, retry_after_s=self.retry_after_s
        )


def failure(error: httpx.HTTPError) -> Refusal:
    """Say why no answer came at all. Nothing had been received."""
    match error:
        case httpx.ReadTimeout():
            return Refusal("did not answer in time", status=_GATEWAY_TIMEOUT)
        case httpx.ConnectTimeout():
            return Refusal("cannot be reached: no connection in time", can_wait=True)
        case httpx.ConnectError():
            # Waiting mends no certificate.
            return Refusal(f"cannot be reached: {one_line(str(error))}", can_wait="[SSL" not in str(error))
        case httpx.RemoteProtocolError() if "disconnected" not in str(error):
            return Refusal("does not speak HTTP")
        case httpx.NetworkError() | httpx.RemoteProtocolError():
            return Refusal("closed the connection without an answer", can_wait=True)
        case _:
            return Refusal(f"cannot be asked: {one_line(str(error)) or type(error).__name__}")


async def read_refusal(response: httpx.Response, endpoint: Endpoint) -> Refusal:
    """Read why a request was refused, and close the response."""
    try:
        async with asyncio.timeout(_READ_TIMEOUT_S):
            body = await read_body(response, _MAX_BODY_BYTES)
    except (TimeoutError, httpx.HTTPError, Unusable):
        body = b""
    finally:
        await response.aclose()
    code = response.status_code
    said = _without_key(reason_in(body), endpoint)
    told = f"({code}): {said}" if said else f"({code})"
    if 300 <= code < 400:
        return Refusal(
            f"redirects{_target(response)} ({code}), which is not followed: give the address it redirects to"
        )
    if code in (401, 403):
        # Not in the endpoint's own words: they often quote a part of the key.
        return Refusal(_unauthorised(endpoint, code), code=code)
    if code == 200:
        return Refusal(f"sent no stream: {said}" if said else "sent no stream of events, though one was asked for")
    if code in (400, 413, 422):
        return Refusal(f"refused the request {told}", said, code, _BAD_REQUEST)
    if code in _BUSY:
        is_lasting = "insufficient_quota" in body.decode("utf-8", "replace")
        wait = retry_after_s(response.headers.get("retry-after"))
        return Refusal(f"is busy or over its limit {told}", said, code, _UNAVAILABLE, not is_lasting, wait)
    return Refusal(f"failed {told}", said, code)


async def read_body(response: httpx.Response, max_bytes: int) -> bytes:
    """Return the body of a response.

    Raises:
        Unusable: it is longer than that.
    """
    body = bytearray()
    async for data in response.aiter_bytes():
        body += data
        if len(body) > max_bytes:
            raise Unusable(f"sent more than {max_bytes} bytes where a short answer was expected")
    return bytes(body)


def reason_in(body: bytes | str) -> str:
    """Return what the body of an error says, in one line; nothing of a page, or of a form that is not known."""
    try:
        return one_line(_reason(json.loads(body)))
    except (ValueError, RecursionError):
        return ""


def one_line(text: str) -> str:
    """Return a text as one line of bounded length without secrets."""
    line = redact(" ".join(text.split()), {})
    return line if len(line) <= _MAX_REASON_CHARS else f"{line[:_MAX_REASON_CHARS]}…"


def retry_after_s(value: str | None) -> float | None:
    """Read a Retry-After: seconds, or a date. Units: seconds from the present moment."""
    if value is None:
        return None
    if re.fullmatch(r"\d{1,9}(\.\d*)?", value.strip()):
        return float(value)
    try:
        then = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (then.replace(tzinfo=then.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _reason(told: Any) -> str:
    if isinstance(told, str):
        return told
    if isinstance(told, list):
        return "; ".join(filter(None, map(_reason, cast("list[Any]", told)[:5])))
    if not isinstance(told, Mapping):
        return ""
    fields = cast("Mapping[str, Any]", told)
    for name in ("error", "detail", "message", "msg"):
        if fields.get(name):
            # Only names and messages: a validation error may quote the whole request beside them.
            where = fields.get("param") or fields.get("loc")
            parts = cast("list[Any]", where) if isinstance(where, list) else [where]
            names = ".".join(part for part in parts if isinstance(part, str))
            text = _reason(fields[name])
            return f"{names}: {text}" if names and names not in text else text
    return ""


def _without_key(text: str, endpoint: Endpoint) -> str:
    return text if endpoint.key is None else text.replace(endpoint.key, REDACTED)


def _unauthorised(endpoint: Endpoint, code: int) -> str:
    if endpoint.key is None:
        return f"wants a key ({code}): set {endpoint.key_variable}"
    return f"refuses the key that it was given ({code}): check {endpoint.key_variable}"


def _target(response: httpx.Response) -> str:
    try:
        parts = urlsplit(response.headers.get("location", ""))
        return f" to {parts.scheme}://{parts.hostname}" if parts.scheme and parts.hostname else ""
    except ValueError:
        return ""
