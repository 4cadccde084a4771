"""What clients are told of errors."""

from __future__ import annotations

import pytest

from agon.errors import ConfigError, DataError, EngineError, VerifierError
from agon.serve.admission import BusyError, ClosingError
from agon.serve.backend import EndpointError
from agon.serve.errors import RequestError, request_error_of


@pytest.mark.parametrize(
    ("status", "kind"), [(400, "invalid_request_error"), (502, "server_error"), (504, "timeout_error")]
)
def test_the_failure_of_an_endpoint_has_its_own_status(status, kind):
    told = request_error_of(EndpointError("the drafter's endpoint\nfailed", status=status))
    error = {"message": "the drafter's endpoint failed", "type": kind, "param": None, "code": "endpoint_error"}
    assert (told.status, told.to_json()) == (status, {"error": error})
    assert told.headers == []


def test_the_wait_that_an_endpoint_asked_for_is_passed_on():
    told = request_error_of(EndpointError("busy", status=503, retry_after_s=2.2))
    assert (told.status, told.headers) == (503, [(b"retry-after", b"3")])


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (RequestError("wrong", param="n", code="invalid_value"), 400, "invalid_request_error", "invalid_value"),
        (RequestError("who", status=401, code="invalid_api_key"), 401, "authentication_error", "invalid_api_key"),
        (ConfigError("too many"), 400, "invalid_request_error", None),
        (DataError("no problem"), 400, "invalid_request_error", None),
        (BusyError("full", 1.0), 429, "rate_limit_error", "queue_full"),
        (ClosingError("ends"), 503, "server_error", "shutting_down"),
        (EngineError("broke"), 500, "server_error", "engine_error"),
        (VerifierError("too many"), 500, "server_error", None),
    ],
)
def test_every_expected_failure_has_its_status_and_kind(error, status, kind, code):
    told = request_error_of(error)
    assert told.status == status
    assert (told.to_json()["error"]["type"], told.to_json()["error"]["code"]) == (kind, code)


def test_a_wait_is_whole_seconds_and_never_none():
    assert request_error_of(BusyError("full", 1.01)).headers == [(b"retry-after", b"2")]


def test_a_mistake_of_our_own_keeps_its_message_to_itself():
    told = request_error_of(KeyError("a private problem"))
    assert (told.status, told.code) == (500, "internal_error")
    assert "private" not in str(told)
