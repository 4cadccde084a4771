"""What docs/safety.md promises of the code itself."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "agon"
FILES = sorted(SOURCE.rglob("*.py"))
# What runs code while it reads data.
UNPICKLERS = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
READERS = {("torch", "load"), ("numpy", "load"), ("np", "load"), ("pandas", "read_pickle"), ("yaml", "load")}


def faults(source: str) -> list[str]:
    """Name what a file unpickles with."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        found += [name for name in names if name.partition(".")[0] in UNPICKLERS]
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found += [f"{node.value.id}.{node.attr}"] if (node.value.id, node.attr) in READERS else []
        if isinstance(node, ast.keyword) and node.arg in ("allow_pickle", "weights_only"):
            found.append(node.arg)
    return found


def test_nothing_in_agon_unpickles():
    assert len(FILES) > 200
    assert {path.name: found for path in FILES if (found := faults(path.read_text()))} == {}


@pytest.mark.parametrize(
    "line", ["import pickle", "from joblib import load", "torch.load(x)", "np.load(x)", "f(x, allow_pickle=True)"]
)
def test_what_unpickles_is_seen(line):
    assert len(faults(line)) == 1
