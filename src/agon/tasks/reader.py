"""Rows out of a file or a Hub data set, as plain Python values, with their numbers and without hidden repairs."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from agon.errors import ConfigError, DataError
from agon.tasks.hub import load_hub
from agon.tasks.table import Row, Table
from agon.tasks.text_rows import csv_table, json_table, jsonl_table


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
    openers = {".jsonl": jsonl_table, ".ndjson": jsonl_table, ".json": json_table, ".csv": csv_table, ".tsv": csv_table}
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
        HubDataError: it does not exist, needs a login, or cannot be reached.
    """
    dataset = load_hub(name, config, split)

    def read(columns: Sequence[str]) -> Iterator[Row]:
        chosen = dataset.select_columns(list(columns))
        return (Row(number, values) for number, values in enumerate(chosen, 1))

    return Table(f"{name} ({split})", tuple(str(column) for column in dataset.column_names), read)


def _content(file: Path) -> bytes:
    content = file.read_bytes()
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


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


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
