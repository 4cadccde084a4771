"""Rows out of a file or a Hub data set, as plain Python values, with their numbers and without hidden repairs."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agon.errors import ConfigError, DataError
from agon.tasks.hub import load_hub

Values = Mapping[str, Any]


class Row(NamedTuple):
    """One row: its number from 1, and its values or the reason why it has none."""

    number: int
    values: Values
    problem: str = ""


class Table(NamedTuple):
    """An open source of rows. `read` yields the rows with the columns that are asked for, so that others are never loaded."""

    source: str
    columns: tuple[str, ...]
    read: Callable[[Sequence[str]], Iterator[Row]]


def open_file(path: str, *, key: str) -> Table:
    """Open a JSONL (optionally gzipped), JSON, Parquet or CSV file. `key` is the setting that names it.

    Raises:
        ConfigError: the file does not exist, or its name has another ending.
        DataError: the file cannot be read.
    """
    file = Path(path).expanduser()
    try:
        is_file = file.is_file()
    except OSError as error:
        raise ConfigError(f"{key} is {path!r}, which cannot be opened ({error.strerror}): give another file") from None
    if not is_file:
        what = "a folder" if file.is_dir() else "no file"
        raise ConfigError(f"{key} is {path!r}, which is {what}: give a JSONL, Parquet or CSV file")
    name = file.name.lower().removesuffix(".gz")
    openers = {".jsonl": _open_jsonl, ".ndjson": _open_jsonl, ".json": _open_json, ".csv": _open_csv, ".tsv": _open_csv}
    try:
        if name.endswith(".parquet"):
            return _open_parquet(file)
        for ending, opener in openers.items():
            if name.endswith(ending):
                return opener(str(file), _content(file))
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file} cannot be read ({_first_line(error)}): give a whole file") from None
    raise ConfigError(f"{key} is {path!r}: the name must end in .jsonl, .jsonl.gz, .json, .parquet, .csv or .tsv")


def open_hub(name: str, config: str | None, split: str) -> Table:
    """Open a split of a Hub data set.

    Raises:
        DataError: it does not exist, needs a login, or cannot be reached.
    """
    dataset = load_hub(name, config, split)

    def read(columns: Sequence[str]) -> Iterator[Row]:
        chosen = dataset.select_columns(list(columns))
        return (Row(number, values) for number, values in enumerate(chosen, 1))

    return Table(f"{name} ({split})", tuple(str(column) for column in dataset.column_names), read)


def _content(file: Path) -> bytes:
    content = file.read_bytes()
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def _open_jsonl(source: str, content: bytes) -> Table:
    # bytes, not str.splitlines: U+2028 and U+0085 inside a string are no line breaks.
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return _table(source, [_json_row(number, line) for number, line in enumerate(lines, 1) if line.strip()])


def _open_json(source: str, content: bytes) -> Table:
    text = content.removeprefix(b"\xef\xbb\xbf")
    if not text.lstrip().startswith(b"["):
        return _open_jsonl(source, content)
    try:
        items = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{source} is not valid JSON ({error}): give a list of objects, or one object a line") from None
    return _table(source, [_object_row(number, item) for number, item in enumerate(items, 1)])


def _json_row(number: int, line: bytes) -> Row:
    try:
        return _object_row(number, json.loads(line.decode("utf-8")))
    except UnicodeDecodeError as error:
        return Row(number, {}, f"not UTF-8 at byte {error.start}")
    except (ValueError, RecursionError) as error:
        return Row(number, {}, f"not JSON ({error})")


def _object_row(number: int, item: Any) -> Row:
    if isinstance(item, dict):
        return Row(number, item)
    return Row(number, {}, f"a JSON {type(item).__name__}, where an object is wanted")


def _open_csv(source: str, content: bytes) -> Table:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{source} is not UTF-8 (byte {error.start}): save it as UTF-8") from None
    delimiter = "\t" if source.lower().removesuffix(".gz").endswith(".tsv") else ","
    csv.field_size_limit(100_000_000)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[Row] = []
    try:
        for number, values in enumerate(reader, 1):
            # DictReader puts what is too much under None, and None where a field is missing.
            is_whole = None not in values and None not in values.values()
            rows.append(
                Row(number, values) if is_whole else Row(number, {}, "another number of fields than the header")
            )
    except csv.Error as error:
        raise DataError(f"{source} is not valid CSV at line {reader.line_num} ({error}): mend the quoting") from None
    return _table(source, rows, tuple(reader.fieldnames or ()))


def _open_parquet(file: Path) -> Table:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        table = ParquetFile(file)
        columns = tuple(str(name) for name in table.schema_arrow.names)
    except ArrowException as error:
        raise DataError(f"{file} is not a Parquet file ({_first_line(error)}): give a whole file") from None

    def read(wanted: Sequence[str]) -> Iterator[Row]:
        number = 0
        # Only the footer has been read so far: damaged pages come to light here.
        try:
            for batch in table.iter_batches(columns=list(wanted)):
                for values in batch.to_pylist():
                    number += 1
                    yield Row(number, values)
        except (OSError, ValueError, ArrowException) as error:
            raise DataError(f"{file} is damaged after row {number} ({_first_line(error)}): give a whole file") from None

    return Table(str(file), columns, read)


def _table(source: str, rows: list[Row], columns: tuple[str, ...] | None = None) -> Table:
    found = columns if columns is not None else tuple(dict.fromkeys(str(name) for row in rows for name in row.values))

    def read(wanted: Sequence[str]) -> Iterator[Row]:
        names = set(wanted)
        return (row._replace(values={name: row.values[name] for name in row.values if name in names}) for row in rows)

    return Table(source, found, read)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
