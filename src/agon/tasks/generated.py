"""Rows of a task that a function of the user's own generates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from agon.errors import DataError
from agon.imported import imported_function, own_code
from agon.tasks.table import Row, Table, shown, table_of


def open_generated(name: str, *, num_problems: int, seed: int) -> Table:
    """Call the function `module:NAME` with a number and a seed, and return the rows that it gives, at most that many.

    Raises:
        ConfigError: it cannot be imported, or is no function.
        DataError: it fails, or gives no row that has columns.
    """
    function = imported_function("task.name", name)
    rows: list[Row] = []
    try:
        with own_code():
            rows.extend(_rows(function(num_problems, seed), num_problems))
    except Exception as error:  # a function of the user's own may raise anything
        reason = f"{type(error).__name__}: {error}"
        raise DataError(f"{name} failed after {len(rows)} rows ({reason}): mend the function") from None
    if not any(row.values for row in rows):
        given = f"row 1 is {rows[0].fault or 'empty'}" if rows else "no row at all"
        raise DataError(f"{name} gave no problem ({given}): it must return or yield mappings of columns, one a problem")
    return table_of(f"{name} ({num_problems} problems, seed {seed})", rows)


def _rows(made: Any, limit: int) -> Iterator[Row]:
    for number, values in enumerate(islice(made, limit), 1):
        if isinstance(values, Mapping):
            yield Row(number, dict(values))
        else:
            yield Row(number, {}, f"{shown(values)}, where a mapping of columns is wanted")
