from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agon.cli.main import main

SMALL = [
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
