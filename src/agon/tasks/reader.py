"""Rows out of a file or a Hub data set, as plain Python values, with their numbers and without hidden repairs."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from agon.errors import ConfigError, DataError
from agon.secrecy import redact_text
from agon.tasks.hub import load_hub
from agon.tasks.table import Row, Table
from agon.tasks.text_rows import csv_table, json_table, jsonl_table

# Rows as text shrink to a twentieth or so. What shrinks to less than a hundredth says nothing, or is made to fill the memory.
_MOST_TIMES_LARGER = 100
_ALWAYS_READ = 64 * 1024 * 1024
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://")


def open_file(path: str, *, key: str) -> Table:
    """Open a JSONL (optionally gzipped), JSON, Parquet or CSV file. `key` is the setting that names it.

    Raises:
        ConfigError: the file does not exist, or its name has another ending.
        DataError: the file cannot be read.
    """
    if _ADDRESS.match(path):
        raise ConfigError(f"{key} is {redact_text(path)!r}, which is an address: download it, and give the file")
    try:
        file = Path(path).expanduser()
        is_file = file.is_file()
    except (OSError, RuntimeError) as error:  # a home folder of nobody is a RuntimeError
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{key} is {path!r}, which cannot be opened ({reason}): give another file") from None
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
    if content[:2] != b"\x1f\x8b":
        return content
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
        unpacked = stream.read(_most_bytes(len(content)) + 1)
    _require_plausible(file, len(content), len(unpacked))
    return unpacked


def _most_bytes(packed: int) -> int:
    return max(_ALWAYS_READ, _MOST_TIMES_LARGER * packed)


def _require_plausible(file: Path, packed: int, unpacked: int) -> None:
    if unpacked > _most_bytes(packed):
        raise DataError(
            f"{file} has {packed:,} bytes and unpacks to more than {_most_bytes(packed):,}, which no table of problems does: "
            "unpack it yourself, if you trust it"
        )


def _open_parquet(file: Path) -> Table:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        table = ParquetFile(file)
        groups = [table.metadata.row_group(number) for number in range(table.metadata.num_row_groups)]
        _require_plausible(file, file.stat().st_size, sum(group.total_byte_size for group in groups))
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
