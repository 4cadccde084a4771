"""JSON of a run folder, read back as strictly as it was written: a folder may have been damaged, or made by a stranger.

A byte that flipped within a number leaves valid JSON, and another result. What is written at once therefore carries a checksum of its content.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn

CHECKSUM = "checksum"
"""Entry of a JSON object with the sha256 of all its others."""

# No number that agon writes comes near; Python would keep integers that no arithmetic with floats can take.
_MOST_DIGITS = 300


def parse_json(data: bytes | str) -> Any:
    """Return what a JSON text holds.

    Raises:
        ValueError: it is no JSON, holds a number that is not finite or too large, or is nested deeper than any file of a run.
    """
    try:
        return json.loads(data, parse_constant=_refuse, parse_float=_finite, parse_int=_bounded)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def parse_bulk_json(data: bytes | str) -> Any:
    """The same, for long lists of numbers: they are not looked at one by one, which would take as long as everything else.

    Raises:
        ValueError: it is no JSON, holds NaN or Infinity, or is nested deeper than any file of a run.
    """
    try:
        return json.loads(data, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain JSON content with its checksum as the last entry."""
    own = {key: value for key, value in content.items() if key != CHECKSUM}
    return {**own, CHECKSUM: _checksum(own)}


def unsealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return content without its checksum. What was written without one, by hand or by an older agon, is taken as it is.

    Raises:
        ValueError: it is not what was written.
    """
    own = {key: value for key, value in content.items() if key != CHECKSUM}
    if CHECKSUM in content and content[CHECKSUM] != _checksum(own):
        raise ValueError("it was changed after it was written: its checksum differs")
    return own


def _checksum(content: Mapping[str, Any]) -> str:
    # Of the content and not of the bytes: a file that was only laid out anew is still whole.
    plain = json.loads(json.dumps(content))
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"holds {name}, which is no JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"holds {digits[:20]}, which is too large")
    return number


def _bounded(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"holds a number of {len(digits)} digits")
    return int(digits)
