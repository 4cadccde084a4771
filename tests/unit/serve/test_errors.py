"""What clients are told of errors."""

from __future__ import annotations

import pytest

from agon.serve.backend import EndpointError
from agon.serve.errors import request_error_of


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
