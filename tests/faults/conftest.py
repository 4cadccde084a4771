"""What every test of faults has: the mark, processes to start, and a run that nothing disturbed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from harness.folders import MATRIX, TINY_WORDS
from harness.processes import Ended, Starter, require_no_orphans
from harness.server import served


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.faults)
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def starter(tmp_path_factory) -> Iterator[Starter]:
    opened = Starter(tmp_path_factory.mktemp("processes"))
    yield opened
    opened.close()


@pytest.fixture
def place(tmp_path) -> Iterator[Path]:
    """A folder to work in; after the test no process may be left in it."""
    yield tmp_path
    require_no_orphans(tmp_path)


@pytest.fixture(scope="session")
def train(starter):
    """Return a function that trains the tiny run into `out`, to the end of its process."""

    def run(out: Path, *words: object, **options) -> Ended:
        return starter.run("train", "quickstart-agon", "--out", out, *TINY_WORDS, *words, cwd=out.parent, **options)

    return run


@pytest.fixture(scope="session")
def whole(train, tmp_path_factory) -> Path:
    """A run that nothing disturbed. Nobody may write into it."""
    out = tmp_path_factory.mktemp("whole") / "run"
    ended = train(out)
    assert ended.code == 0, ended.told
    return out


@pytest.fixture(scope="session")
def measured(starter, whole, tmp_path_factory) -> Path:
    """The same, evaluated, examined and reported. Nobody may write into it."""
    out = tmp_path_factory.mktemp("measured") / "run"
    shutil.copytree(whole, out)
    for words in (["eval", out], ["eval", out, "--microscope"], ["report", out]):
        ended = starter.run(*words, cwd=out.parent)
        assert ended.code == 0, ended.told
    return out


@pytest.fixture(scope="session")
def recipe(tmp_path_factory) -> Path:
    """The recipe of a matrix of one arm and two seeds."""
    path = tmp_path_factory.mktemp("recipe") / "small.toml"
    path.write_text(MATRIX)
    return path


@pytest.fixture
def serving(starter, place):
    """Return a context manager: a server over a run that can be asked, killed when the test is done."""
    return partial(served, starter, place)


@pytest.fixture
def run(measured, place) -> Path:
    """A copy of the evaluated run, to be spoilt."""
    out = place / "run"
    shutil.copytree(measured, out)
    return out
