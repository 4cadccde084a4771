"""What README.md shows of the server, run as it stands there but for the port."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
ADDRESS = "http://127.0.0.1:8000"


def block(beginning):
    """Return the block of the section on serving that begins so."""
    section = README.read_text().partition("\n## Serve\n")[2].partition("\n## ")[0]
    blocks, lines = [], []
    for line in [*section.splitlines(), "end"]:
        if line.startswith("    ") or (lines and not line):
            lines.append(line[4:])
        elif lines:
            blocks.append("\n".join(lines).rstrip())
            lines = []
    (found,) = [one for one in blocks if one.startswith(beginning)]
    return found


def run(*words, served):
    script = words[-1]
    assert ADDRESS in script
    done = subprocess.run(
        [*words[:-1], script.replace(ADDRESS, served)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_the_readmes_curl_gets_an_answer(served):
    answer = json.loads(run("sh", "-c", block("curl "), served=served))
    assert answer["choices"][0]["message"]["content"]
    assert answer["agon"][0]["verdict"] in ("correct", "wrong", "unparsed")


def test_the_readmes_python_prints_draft_what_crosses_and_challenge(served):
    said = run(sys.executable, "-c", block("from openai import"), served=served)
    draft, _, rest = said.partition("\n\nThe challenger reads: ")
    crossed, _, challenge = rest.partition("\n\n")
    assert "<answer>" not in crossed
    assert all(text.startswith("<think>") for text in (draft, challenge)), said


def test_the_readme_serves_at_the_default_address(agon, capsys):
    assert block("agon serve runs/quickstart") == "agon serve runs/quickstart"
    assert agon("serve", "--help") == 0
    help_text = " ".join(capsys.readouterr().out.split())
    assert "where to listen (default: this machine alone)" in help_text
    assert "(default: 8000)" in help_text
