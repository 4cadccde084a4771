"""Notes on rows of a table, each said once with the rows it belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class NotedRow(NamedTuple):
    """A row as notes name it: whose it is (None where that needs no saying), what it is called, and its notes."""

    owner: str | None
    label: str
    notes: Sequence[str]


class Note(NamedTuple):
    """A note, and the rows it belongs to as one text, by owner."""

    text: str
    rows: str


def notes_once(rows: Iterable[NotedRow]) -> list[Note]:
    """Return every note once, in the order in which the rows have them."""
    found: dict[str, dict[str | None, list[str]]] = {}
    for row in rows:
        for text in row.notes:
            labels = found.setdefault(text, {}).setdefault(row.owner, [])
            if row.label not in labels:
                labels.append(row.label)
    return [Note(text, "; ".join(map(_named, owners, owners.values()))) for text, owners in found.items()]


def _named(owner: str | None, labels: Sequence[str]) -> str:
    listed = ", ".join(labels)
    return listed if owner is None else f"{owner}: {listed}"
