"""docs/troubleshooting.md quotes messages as they are printed, and exit codes as they are."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from agon import errors
from agon.cli.common import EXIT_INTERRUPTED

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
ROWS = [row.split(" | ") for row in re.findall(r"^\| (.+) \|$", PAGE, flags=re.MULTILINE)]
QUOTED = [cells[0].strip("`") for cells in ROWS if len(cells) == 3 and cells[0].startswith("`")]

# Stands in a message for what differs.
GAP = "\0"


def text_of(node: ast.expr) -> str | None:
    """Return a string of the source with gaps for what is put in when it runs."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.sub(r"\{\w*\}", GAP, node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else GAP for part in node.values)
    return None


def strings(source: str) -> list[str]:
    """Return the strings of a source, docstrings left out."""
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = {node.value for node in nodes if isinstance(node, ast.Expr)}
    return [text for node in nodes if isinstance(node, ast.expr) and node not in docstrings and (text := text_of(node))]


@pytest.fixture(scope="module")
def known() -> list[str]:
    """Every string of agon's source that could be part of a message, and the Makefile."""
    files = (ROOT / "src" / "agon").rglob("*.py")
    found = [text for file in files for text in strings(file.read_text(encoding="utf-8"))]
    return [*(text for text in found if len(text) > 15), (ROOT / "Makefile").read_text(encoding="utf-8")]


def is_said(quoted: str, message: str) -> bool:
    """Tell whether a message has the parts of a quotation in their order, one gap or more between each two."""
    start = 0
    for number, part in enumerate(quoted.split("…")):
        found = message.find(part, start)
        if found < 0 or (number and part and GAP not in message[start:found]):
            return False
        start = found + len(part)
    return True


def test_there_are_messages_of_every_kind():
    assert 60 < len(QUOTED) == len(set(QUOTED))


@pytest.mark.parametrize("quoted", QUOTED)
def test_a_quoted_message_is_one_of_ours(known, quoted):
    assert max(map(len, quoted.split("…"))) > 8
    assert any(is_said(quoted, message) for message in known)


def test_a_message_is_found_by_its_parts_and_in_their_order():
    found = strings('"a docstring of more than one word"\nx = f"run folder {run} is in use by {who}: wait"')
    assert found[0] == (message := f"run folder {GAP} is in use by {GAP}: wait")
    assert not any("docstring" in text for text in found)
    assert is_said("run folder … is in use by …: wait", message)
    assert is_said("is in use by", message)
    assert not is_said("is in use by … run folder", message)
    assert not is_said("run folder… is…in use", message)
    assert not is_said("run folder is in use", message)


def test_the_exit_codes_are_those_of_the_errors():
    documented = {int(cells[0]) for cells in ROWS if len(cells) == 2 and cells[0].isdigit()}
    raised = {error.exit_code for error in vars(errors).values() if isinstance(error, type)}
    assert documented == {0, *raised, EXIT_INTERRUPTED}
