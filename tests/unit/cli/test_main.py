from __future__ import annotations

import os
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


def behind_a_closed_pipe(command):
    """Run a command, a line of Python, with nobody to read its standard output; return the exit code and standard error."""
    program = f"import sys; from agon.cli.main import run_guarded\ndef command():\n    {command}\nsys.exit(run_guarded(command))"
    read, write = os.pipe()
    os.close(read)
    try:
        ended = subprocess.run(
            [sys.executable, "-c", program], stdout=write, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    finally:
        os.close(write)
    return ended.returncode, ended.stderr


@pytest.mark.parametrize(
    "command",
    [
        "from agon.cli.table import console; console().print('row'); return 0",
        "from rich.console import Console; Console(width=170).print('row'); return 0",
        "print('row'); return 0",
    ],
)
def test_a_command_whose_reader_is_gone_ends_without_a_word(command):
    assert behind_a_closed_pipe(command) == (1, "")


def test_ones_own_code_that_exits_for_a_pipe_of_its_own_is_told():
    command = "exec('try: raise BrokenPipeError\\nexcept OSError: sys.exit(7)')"
    assert behind_a_closed_pipe(command) == (
        1,
        "agon: a module of your own or a library called sys.exit(7), which ended the command: mend it\n",
    )


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
