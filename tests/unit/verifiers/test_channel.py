from __future__ import annotations

import socket

import pytest

from agon.verifiers.channel import receive, send
from agon.verifiers.sandbox.plain import NotPlainError


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def test_values_arrive_whole_and_in_order(ends):
    ours, theirs = ends
    send(ours, ("call", (1, [2]), {"a": {3}}))
    send(ours, "x" * 1_000)
    assert receive(theirs, 5.0) == ("call", (1, [2]), {"a": {3}})
    assert receive(theirs, None) == "x" * 1_000


def test_nothing_in_time_and_nobody_there_are_told_apart(ends):
    ours, theirs = ends
    assert receive(theirs, 0.01) is None
    ours.close()
    assert receive(theirs, 5.0) == ()


def test_what_is_cut_off_is_nobody_there(ends):
    ours, theirs = ends
    ours.sendall(b"\x10\x00\x00\x00short")
    ours.close()
    assert receive(theirs, 5.0) == ()


def test_only_plain_values_are_sent(ends):
    with pytest.raises(NotPlainError):
        send(ends[0], object())
