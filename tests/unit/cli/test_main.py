from __future__ import annotations

import subprocess
import sys

import pytest

from agon.cli import doctor, report
from agon.cli.common import print_json
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
        (
            RuntimeError("CUDA error: unspecified launch failure\nCUDA kernel"),
            "agon: the device failed (CUDA error: unspecified launch failure): look after it; a training: continue with --resume",
        ),
        (SystemExit(0), "agon: a module of your own or a library called sys.exit(0), which ended the command: mend it"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried\nto"), "agon: out of memory: lower"),
    ],
)
def test_whatever_fails_is_told_in_one_line(monkeypatch, capsys, error, line):
    assert failing(monkeypatch, error) == 1
    said = capsys.readouterr().err
    assert said.startswith(line)
    assert said.count("\n") == 1


def test_with_json_all_but_the_document_goes_to_standard_error(monkeypatch, capsys):
    def talk(options):
        print("loaded")
        print_json({"here": 1})
        return 0

    monkeypatch.setattr(doctor, "doctor", talk)
    assert main(["doctor", "--json"]) == 0
    assert tuple(capsys.readouterr()) == ('{"here": 1}\n', "loaded\n")


def test_our_own_mistakes_are_not_hidden(monkeypatch):
    with pytest.raises(RuntimeError, match="a mistake"):
        failing(monkeypatch, RuntimeError("a mistake"))


@pytest.mark.parametrize(
    ("closed", "printed"), [(">&-", (False, True)), ("2>&-", (True, False)), (">&- 2>&- <&-", (False, False))]
)
def test_a_closed_stream_takes_what_is_printed(tmp_path, closed, printed):
    program = (
        "import os, sys; from agon.cli.main import run_guarded, _open_closed_streams as prepare; prepare(); "
        "number = os.open('other', os.O_CREAT | os.O_WRONLY); os.write(1, b'out'); os.write(2, b'err'); print('more'); "
        "print('more', file=sys.stderr); sys.exit(run_guarded(lambda: 3 if number > 2 else 4))"
    )
    ended = subprocess.run(
        ["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, program],
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
    )
    assert ended.returncode == 3
    assert (b"outmore" in ended.stdout, b"err" in ended.stderr) == printed
    assert (tmp_path / "other").read_bytes() == b""
