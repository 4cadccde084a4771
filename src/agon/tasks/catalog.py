"""What the named tasks are, for people who choose one: `agon data list`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from agon.gym_families import FAMILIES, GYM_PREFIX, LEFT_OUT
from agon.records import NAMED_TASKS
from agon.tasks.named import NAMED

# name: what it is, license of the data (None: not known)
_ABOUT: dict[str, tuple[str, str | None]] = {
    "countdown-lite": ("reach a target from three numbers in two moves; generated", "Apache-2.0"),
    "gsm8k": ("word problems of two to eight steps, answers are numbers", "MIT"),
    "math": ("competition problems with a level from 1 to 5", "MIT"),
    "math500": ("500 problems of MATH's test split, to measure with", "MIT"),
    "deepmath": ("103,000 hard problems with a difficulty from 1 to 9.5", "MIT"),
    "svamp": ("word problems of one step, for very small models", "MIT"),
    "humaneval": ("164 functions to complete, to measure with", "MIT"),
    "mbpp": ("short functions from a sentence and tests, the sanitized rows", "CC-BY-4.0"),
    "code_contests": ("contest programs that read standard input", "CC-BY-4.0"),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A task that has a name. `source` is a data set of the Hub, "generated", or a package."""

    name: str
    what: str
    source: str
    verifier: str
    splits: tuple[str, ...]
    license: str | None


def catalog() -> list[Entry]:
    """Return every named task; the families of reasoning-gym are one entry."""
    return [*map(_entry, NAMED_TASKS), _gym()]


def catalog_json() -> dict[str, Any]:
    """Return the catalog, the families of reasoning-gym by name, and those left out with the reason."""
    return {
        "tasks": [asdict(entry) for entry in catalog()],
        "families": [GYM_PREFIX + name for name in FAMILIES],
        "left_out": {GYM_PREFIX + name: reason for name, reason in LEFT_OUT.items()},
    }


def _entry(name: str) -> Entry:
    what, license_ = _ABOUT[name]
    task = NAMED.get(name)
    if task is None:
        return Entry(name, what, "generated", "expression", ("train", "dev", "test"), license_)
    if task.train_split is None:
        return Entry(name, what, task.hub, task.verifier, ("test",), license_)
    # Where the data set has no test split, one is taken from its rows.
    return Entry(name, what, task.hub, task.verifier, ("train", "dev", "test"), license_)


def _gym() -> Entry:
    what = f"{len(FAMILIES)} families of generated puzzles ({len(LEFT_OUT)} more are left out: their scores cannot be trusted)"
    source = "the package reasoning-gym"
    return Entry(f"{GYM_PREFIX}FAMILY", what, source, "reasoning-gym", ("train", "dev", "test"), "Apache-2.0")
