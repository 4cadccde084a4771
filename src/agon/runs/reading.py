"""JSON of a run folder, read back as strictly as it was written: a folder may have been damaged, or made by a stranger."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

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
