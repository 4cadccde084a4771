from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agon.cli.streams import lossy_stderr

SAY = """
import sys
from pathlib import Path
from agon.cli.streams import lossy_stderr
own = sys.stderr
with lossy_stderr():
    for number in range(100):
        print("note", number, "é", file=sys.stderr)
    assert sys.stderr.isatty() == own.isatty()
assert sys.stderr is own
print("went on")
"""


def _said(stderr) -> str:
    done = subprocess.run([sys.executable, "-c", SAY], stdout=subprocess.PIPE, stderr=stderr, text=True, check=True)
    return done.stdout


def test_notes_whose_reader_is_gone_end_nothing():
    read, write = os.pipe()
    os.close(read)
    assert _said(write) == "went on\n"
    os.close(write)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
def test_notes_that_a_full_disk_does_not_take_end_nothing():
    with Path("/dev/full").open("wb") as full:
        assert _said(full) == "went on\n"


def test_notes_that_can_be_read_are(tmp_path):
    with (tmp_path / "log").open("wb") as log:
        assert _said(log) == "went on\n"
    assert (tmp_path / "log").read_text().splitlines()[-1] == "note 99 é"


def test_a_stream_that_was_replaced_is_left_alone(capsys):
    with lossy_stderr():
        print("note", file=sys.stderr)
    assert capsys.readouterr().err == "note\n"
