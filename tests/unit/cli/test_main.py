from __future__ import annotations

import pytest

from agon.cli import report
from agon.cli.main import main
from agon.errors import DataError


def failing(monkeypatch, error):
    def fail(options):
        raise error

    monkeypatch.setattr(report, "report", fail)
    return main(["report", "x"])


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (DataError("a library said:\nit\r\nfailed"), "agon: a library said: it failed\n"),
        (OSError(36, "File name too long", "xxx"), "agon: [Errno 36] File name too long: 'xxx'\n"),
        (MemoryError(), "agon: out of memory: lower"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried\nto"), "agon: out of memory: lower"),
    ],
)
def test_whatever_fails_is_told_in_one_line(monkeypatch, capsys, error, line):
    assert failing(monkeypatch, error) == 1
    said = capsys.readouterr().err
    assert said.startswith(line)
    assert said.count("\n") == 1


def test_our_own_mistakes_are_not_hidden(monkeypatch):
    with pytest.raises(RuntimeError, match="a mistake"):
        failing(monkeypatch, RuntimeError("a mistake"))
