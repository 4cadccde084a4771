"""An open source of numbered rows, and how its content is shown in messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Values = Mapping[str, Any]

_MOST_CHARS = 80
_MOST_NAMES = 20


class Row(NamedTuple):
    """One row: its number from 1, and its values or the reason why it has none."""

    number: int
    values: Values
    fault: str = ""


class Table(NamedTuple):
    """An open source of rows. `read` yields the rows with the columns that are asked for, so that others are never loaded."""

    source: str
    columns: tuple[str, ...]
    read: Callable[[Sequence[str]], Iterator[Row]]


def table_of(source: str, rows: list[Row], columns: tuple[str, ...] | None = None) -> Table:
    """Return rows that are in memory as a table; without `columns` those of all rows, in the order in which they turn up."""
    found = columns if columns is not None else tuple(dict.fromkeys(str(name) for row in rows for name in row.values))

    def read(wanted: Sequence[str]) -> Iterator[Row]:
        names = set(wanted)
        return (row._replace(values={name: row.values[name] for name in row.values if name in names}) for row in rows)

    return Table(source, found, read)


def shown(value: Any) -> str:
    """Return a value for a message: one line of ASCII, a long one shortened with its length."""
    # Cut before it is escaped: a value of many megabytes would be copied several times.
    text = ascii(value[: 2 * _MOST_CHARS]) if isinstance(value, str) else ascii(value)
    length = len(value) if isinstance(value, str) else len(text)
    return text if length <= _MOST_CHARS else f"{text[:_MOST_CHARS]}… ({length:,} characters)"


def listed(names: Iterable[str]) -> str:
    """Return names for a message; of many the first few, each shortened."""
    every = [name if len(name) <= _MOST_CHARS else f"{name[:_MOST_CHARS]}…" for name in names]
    more = f" and {len(every) - _MOST_NAMES} more" if len(every) > _MOST_NAMES else ""
    return ", ".join(every[:_MOST_NAMES]) + more
