"""Items of reasoning-gym, the same in the process that asks and in the one that scores.

Both run with Python's hashing fixed. Nothing here is imported by a process that does other work: the package changes global state.
"""

from __future__ import annotations

import sys
import types
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

from agon.seeding import stream_seed


@cache
def _package() -> Any:
    # Only game_of_life, which is left out, uses cellpylib, and it loads the whole of matplotlib: half of the time to start.
    sys.modules.setdefault("cellpylib", types.ModuleType("cellpylib"))
    # By name: type checking must not need a package that is optional.
    return import_module("reasoning_gym")


@lru_cache(maxsize=8)
def family_of(family: str, size: int, seed: int) -> Any:
    """Return a family with its items.

    The package adds an item's index to the seed: neighbouring seeds would have all items but one in common, so ours is hashed.
    """
    spread = stream_seed(seed, "reasoning-gym", family) % 2**31
    return _package().create_dataset(family, size=size, seed=spread)


@lru_cache(maxsize=256)
def item_of(family: str, size: int, seed: int, index: int) -> dict[str, Any]:
    """Return one item: question, answer, metadata."""
    return family_of(family, size, seed)[index]


def level_of(item: dict[str, Any]) -> float | None:
    """Return an item's difficulty if it is one number."""
    difficulty: dict[str, Any] = item["metadata"].get("difficulty") or {}
    levels = [value for value in difficulty.values() if isinstance(value, int | float)]
    return float(levels[0]) if len(levels) == len(difficulty) == 1 else None
