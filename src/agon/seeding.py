"""Named random streams: every draw in a run is a function of the run's seed and of what the draw is for.

Nothing keeps a random state, so nothing has to be saved for a run to continue exactly where it stopped.
"""

from __future__ import annotations

import hashlib
import random

import numpy as np


def stream_seed(seed: int, *names: str | int) -> int:
    """Derive a 63-bit seed for the stream called `names` under the run's `seed`.

    The names are hashed, not added, so that neighbouring steps and samples share nothing.
    """
    text = "\x1f".join([str(seed), *(f"{type(name).__name__}:{name}" for name in names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def numpy_rng(seed: int, *names: str | int) -> np.random.Generator:
    """Return numpy's counter-based generator for a named stream."""
    return np.random.Generator(np.random.Philox(stream_seed(seed, *names)))


def python_rng(seed: int, *names: str | int) -> random.Random:
    """Return the standard library's generator for a named stream."""
    return random.Random(stream_seed(seed, *names))
