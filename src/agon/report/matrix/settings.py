"""Settings and versions of many trainings, by value instead of by run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MAX_VALUES = 12
"""Most values of one setting that are written out."""


@dataclass(frozen=True, slots=True)
class ByValue:
    """What trainings have in common, and where they differ: every name with its values and how many trainings have each."""

    shared: Sequence[tuple[str, str]]
    differing: Sequence[tuple[str, Sequence[str]]]


def by_value(flat: Sequence[Mapping[str, str]], absent: str) -> ByValue:
    """Sort settings into shared and differing ones. A training without a name has the value `absent`."""
    names = dict.fromkeys(name for settings in flat for name in settings)
    shared: list[tuple[str, str]] = []
    differing: list[tuple[str, Sequence[str]]] = []
    for name in names:
        values = [settings.get(name, absent) for settings in flat]
        distinct = list(dict.fromkeys(values))
        if len(distinct) == 1:
            shared.append((name, distinct[0]))
        else:
            shown = [f"{value} ({values.count(value)})" for value in distinct[:MAX_VALUES]]
            more = [f"{len(distinct) - MAX_VALUES} more values"] if len(distinct) > MAX_VALUES else []
            differing.append((name, [*shown, *more]))
    return ByValue(shared, differing)
