"""Failures as OpenAI's clients read them: an HTTP status and `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Any

from agon.errors import AgonError, ConfigError, DataError, EngineError
from agon.serve.admission import BusyError, ClosingError
from agon.serve.backend import EndpointError

JsonTree = dict[str, Any]

SHUTTING_DOWN = "shutting_down"
"""The code of an error that comes of the server's end."""

# What OpenAI calls the kinds of failure; every other status below 500 is an invalid request.
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error", 504: "timeout_error"}


class RequestError(AgonError):
    """A request that is not answered, with its HTTP status. `param` names the field at fault, `code` the failure for programs."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.retry_after_s = retry_after_s

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """What the status asks to be said beside the body."""
        headers: list[tuple[bytes, bytes]] = []
        if self.status == HTTPStatus.UNAUTHORIZED:
            headers += [(b"www-authenticate", b"Bearer"), (b"www-authenticate", b'Basic realm="agon", charset="UTF-8"')]
        if self.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            # The rest of the body is not read, so that nothing can follow it on this connection.
            headers.append((b"connection", b"close"))
        if self.retry_after_s is not None:
            headers.append((b"retry-after", str(self.retry_after_s).encode()))
        return headers

    def to_json(self) -> JsonTree:
        """Return the body in OpenAI's shape."""
        kind = _TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


def request_error_of(error: BaseException) -> RequestError:
    """Return what a client is told of an error. Of one that agon did not raise on purpose it is told nothing but that it happened."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, (ConfigError, DataError)):
        return RequestError(_one_line(error))
    if isinstance(error, BusyError):
        return RequestError(
            _one_line(error), status=429, code="queue_full", retry_after_s=math.ceil(error.retry_after_s)
        )
    if isinstance(error, ClosingError):
        return closing_error()
    if isinstance(error, EndpointError):
        wait = None if error.retry_after_s is None else math.ceil(error.retry_after_s)
        return RequestError(_one_line(error), status=error.status, code="endpoint_error", retry_after_s=wait)
    if isinstance(error, EngineError):
        return RequestError(_one_line(error), status=500, code="engine_error")
    if isinstance(error, AgonError):
        return RequestError(_one_line(error), status=500)
    return RequestError("the server made a mistake: its log says which", status=500, code="internal_error")


def closing_error() -> RequestError:
    """Say that the server ends."""
    return RequestError(
        "the server is shutting down: send the request again when it is back", status=503, code=SHUTTING_DOWN
    )


def _one_line(error: AgonError) -> str:
    return " ".join(str(error).splitlines())
