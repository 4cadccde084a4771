from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from agon.cli.main import main

SMALL = [
    *("--set", "task.max_train=40"),
    *("--set", "train.steps=4"),
    *("--set", "train.problems_per_step=4"),
    *("--set", "train.group_size=4"),
    *("--set", "train.save_every=2"),
    *("--set", "train.save_matches_every=2"),
    *("--set", "evaluation.max_test=12"),
    *("--set", "evaluation.max_dev=6"),
]


@pytest.fixture(scope="session")
def small() -> list[str]:
    """Overrides that make a preset a matter of seconds."""
    return list(SMALL)


@pytest.fixture(scope="session")
def agon() -> Callable[..., int]:
    """Return the command line as a function of words."""

    def run(*words: str | Path) -> int:
        try:
            return main([str(word) for word in words])
        except SystemExit as ended:  # argparse ends so on a usage error
            return int(ended.code or 0)

    return run


@pytest.fixture(scope="session")
def trained(agon, tmp_path_factory) -> Path:
    """A small finished Agon run."""
    out = tmp_path_factory.mktemp("runs") / "agon"
    assert agon("train", "quickstart-agon", "--out", out, *SMALL) == 0
    return out


class Serving(NamedTuple):
    """A server that takes requests: its process, its address, and the file of its log."""

    process: subprocess.Popen[str]
    url: str
    log: Path


@pytest.fixture(scope="session")
def serving(tmp_path_factory) -> Callable[..., AbstractContextManager[Serving]]:
    """Return a function (words of `agon serve`, environment) that serves on a free port of this machine while its block runs."""

    @contextmanager
    def serve(*words: str | Path, env: dict[str, str] | None = None) -> Generator[Serving]:
        log = tmp_path_factory.mktemp("served") / "log"
        with log.open("w") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "agon.cli.main", "serve", *map(str, words), "--port", "0"],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
            )
        try:
            line = process.stdout.readline()
            assert " at http://127.0.0.1:" in line, log.read_text()
            yield Serving(process, line.split(" at ")[1].split()[0], log)
        finally:
            process.kill()
            process.communicate()

    return serve


@pytest.fixture(scope="session")
def served(serving, trained) -> Generator[str]:
    """The address of a served pair whose second adapter drafts."""
    with serving(trained, "--direction", "b-a") as server:
        yield server.url
