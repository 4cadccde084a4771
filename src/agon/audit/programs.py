"""Code problems with programs: one problem of a file, and a task whose own rows hold the programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agon.audit.judge import Check, written
from agon.audit.pairs import EXTRA_FIELDS, BadRow, Pair, Pairs, groups_of
from agon.config import TaskSettings, did_you_mean
from agon.errors import ConfigError, DataError
from agon.records import CODE_TASKS, Problem
from agon.tasks.hub import HubDataError
from agon.tasks.programs import CODE_COLUMNS, program_problem
from agon.tasks.reader import open_file
from agon.tasks.rows import UnusableRow
from agon.tasks.sources import open_sources
from agon.tasks.table import Row, Table, listed, shown, table_of

_NAMES = ("id", "task_id", "name")


class Chosen(NamedTuple):
    """Which row of a file is meant: by its number from 1 or by its name; the only one, where neither is given."""

    number: int | None
    name: str | None


def open_programs(where: str, *, key: str, allows_names: bool) -> list[Table]:
    """Open a file of code problems, or if `allows_names` a named code task. `key` is the argument that names it.

    Raises:
        ConfigError: there is no such file, or the task is none of programs.
        DataError: it cannot be read or reached.
    """
    if allows_names and where in CODE_TASKS:
        try:
            sources = open_sources(TaskSettings(name=where))
        except HubDataError as error:
            raise DataError(f"{error.why} give a file of the same shape: {key} FILE") from None
        return [table for table in (sources.main, sources.test) if table is not None]
    path = Path(where).expanduser()
    if path.suffix in (".json", ".jsonl") and path.is_file():
        one = _one_object(path)
        if one is not None:
            return [table_of(str(path), [Row(1, one)])]
    try:
        return [open_file(where, key=key)]
    except ConfigError as error:
        known = f"; named tasks: {', '.join(CODE_TASKS)}" if allows_names else ""
        raise ConfigError(f"{error}{known}") from None


def read_problem(table: Table, chosen: Chosen) -> Problem:
    """Return the problem of one row.

    Raises:
        DataError: no row or several are meant, or it is no code problem.
    """
    rows = list(table.read([name for name in (*CODE_COLUMNS, *_NAMES) if name in table.columns]))
    meant = [row for row in rows if _is_meant(row, chosen)]
    if not rows:
        raise DataError(f"{table.source} has no rows: give a file with a code problem")
    if len(meant) != 1:
        raise DataError(f"{table.source}: {_which(rows, meant, chosen)}")
    try:
        return _problem(meant[0])
    except UnusableRow as error:
        raise DataError(f"{table.source}, row {meant[0].number} is no code problem: {error}") from None


def read_programs(tables: Sequence[Table], *, field: str, is_expected_right: bool) -> Pairs:
    """Read the rows of a task, each with the program that stands in its own `field`.

    Raises:
        ConfigError: there is no such field.
        DataError: there is no row that can be judged.
    """
    pairs = Pairs(" + ".join(table.source for table in tables))
    for table in tables:
        if table.columns and field not in table.columns:
            hint = did_you_mean(field, table.columns)
            raise ConfigError(f"{table.source} has no field {field!r}{hint}; it has {listed(table.columns)}")
        _read_programs(table, pairs, field=field, is_expected_right=is_expected_right)
    pairs.require_rows()
    return pairs


def _read_programs(table: Table, pairs: Pairs, *, field: str, is_expected_right: bool) -> None:
    wanted = dict.fromkeys((*CODE_COLUMNS, *_NAMES, *EXTRA_FIELDS, field))
    for row in table.read([name for name in wanted if name in table.columns]):
        try:
            problem = _problem(row)
            program = row.values.get(field)
            if not isinstance(program, str) or not program.strip():
                raise UnusableRow(f"{field!r} is {shown(program)}, where a program is wanted")
            name, groups = _name(row.values), groups_of(row.values)
            pairs.rows.append(Pair(row.number, name, problem, program, True, is_expected_right, groups))
        except UnusableRow as error:
            pairs.bad.append(BadRow(row.number, str(error)))


def check_program(problem: Problem, program: str, source: Any = None) -> Check:
    """Return a check of a whole program."""
    return Check(problem, written(program), None, source)


def _one_object(path: Path) -> dict[str, Any] | None:
    """The one JSON object that is written over many lines; None if the file holds anything else."""
    try:
        text = path.read_bytes().strip()
        content = json.loads(text, parse_constant=_refuse) if b"\n" in text else None
    except (ValueError, RecursionError, OSError):
        # Rows, or something that cannot be read: the reader of files tells which.
        return None
    return content if isinstance(content, dict) else None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _problem(row: Row) -> Problem:
    if row.fault:
        raise UnusableRow(row.fault)
    return program_problem(row.values, task="programs")


def _is_meant(row: Row, chosen: Chosen) -> bool:
    if chosen.number is not None:
        return row.number == chosen.number
    return chosen.name is None or chosen.name in _names(row.values)


def _which(rows: Sequence[Row], meant: Sequence[Row], chosen: Chosen) -> str:
    if chosen.number is not None:
        return f"there is no row {chosen.number}: its rows are {rows[0].number} to {rows[-1].number}"
    if chosen.name is None:
        return f"it holds {len(rows)} rows: choose one with --row N or --id ID"
    if meant:
        return f"{len(meant)} rows have the id {chosen.name!r}: choose one with --row N"
    hint = did_you_mean(chosen.name, [name for row in rows for name in _names(row.values)])
    return f"no row has the id {chosen.name!r}{hint}"


def _names(values: Any) -> Iterator[str]:
    return (str(values[name]) for name in _NAMES if isinstance(values.get(name), str | int))


def _name(values: Any) -> str:
    return next(_names(values), "")
