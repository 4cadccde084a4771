"""Rows of text files, by written rules and without hidden repairs.

JSON lines are parted at newline bytes alone: U+2028, U+0085 and a form feed inside a string part nothing. A byte order mark, CRLF,
blank lines and a last line without a newline are harmless. NaN, Infinity and a key that stands twice in one object are no JSON:
the row is refused. A CSV whose header names a column twice is refused as a whole, as is a file in UTF-16.
"""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

from agon.errors import DataError
from agon.tasks.table import Row, Table, shown, table_of

_UTF8_MARK = b"\xef\xbb\xbf"
_GAP = re.compile(r"[ \t\r\n]*")


def jsonl_table(source: str, content: bytes) -> Table:
    """Read one JSON object a line.

    Raises:
        DataError: no line holds an object.
    """
    lines = _utf8(source, content).split(b"\n")
    rows = [_json_row(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    return _table(source, rows, "line")


def json_table(source: str, content: bytes) -> Table:
    """Read a JSON list of objects, or one object a line.

    Raises:
        DataError: it is not valid JSON, or holds no object.
    """
    content = _utf8(source, content)
    if not content.lstrip().startswith(b"["):
        return jsonl_table(source, content)
    try:
        return _table(source, _list_rows(content.decode("utf-8")), "item")
    except (ValueError, RecursionError) as error:
        raise DataError(f"{source} is not valid JSON ({error}): give a list of objects, or one object a line") from None


def csv_table(source: str, content: bytes) -> Table:
    """Read a CSV file with a header, or a TSV one.

    Raises:
        DataError: not UTF-8, wrong quoting, or a column that the header names twice.
    """
    try:
        text = _utf8(source, content).decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{source} is not UTF-8 (byte {error.start}): save it as UTF-8") from None
    delimiter = "\t" if source.lower().removesuffix(".gz").endswith(".tsv") else ","
    csv.field_size_limit(100_000_000)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[Row] = []
    try:
        names = tuple(reader.fieldnames or ())
        for name in names:
            if names.count(name) > 1:
                raise DataError(f"{source} names the column {shown(name)} twice in its header: rename one")
        for number, values in enumerate(reader, 1):
            # DictReader puts what is too much under None, and None where a field is missing.
            is_whole = None not in values and None not in values.values()
            fault = "" if is_whole else "another number of fields than the header"
            rows.append(Row(number, values if is_whole else {}, fault))
    except csv.Error as error:
        raise DataError(f"{source} is not valid CSV at line {reader.line_num} ({error}): mend the quoting") from None
    return table_of(source, rows, names)


def _utf8(source: str, content: bytes) -> bytes:
    """Return the content without its byte order mark; tell a file of another encoding."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\x00" in content[:4]:
        raise DataError(f"{source} is UTF-16 or UTF-32, or no text at all: save it as UTF-8")
    return content.removeprefix(_UTF8_MARK)


def _table(source: str, rows: list[Row], unit: str) -> Table:
    if rows and all(row.fault for row in rows):
        raise DataError(
            f"{source} holds no JSON object in any of its {len(rows)} {unit}s ({unit} {rows[0].number}: {rows[0].fault}): "
            "give one object a line, or a list of objects"
        )
    return table_of(source, rows)


def _json_row(number: int, line: bytes) -> Row:
    try:
        return _object_row(number, *_Decoder().read(line.decode("utf-8")))
    except UnicodeDecodeError as error:
        return Row(number, {}, f"not UTF-8 at byte {error.start}")
    except (ValueError, RecursionError) as error:
        return Row(number, {}, f"not JSON ({error})")


def _list_rows(text: str) -> list[Row]:
    """Read the items one by one, so that a fault is told with its number."""
    rows: list[Row] = []
    position = _after_gap(text, text.index("[") + 1)
    while rows or not text.startswith("]", position):
        decoder = _Decoder()
        item, position = decoder.json.raw_decode(text, position)
        rows.append(_object_row(len(rows) + 1, item, decoder.faults))
        position = _after_gap(text, position)
        if not text.startswith(",", position):
            break
        position = _after_gap(text, position + 1)
    if not text.startswith("]", position):
        raise json.JSONDecodeError("Expecting ',' or ']'", text, position)
    if text[position + 1 :].strip():
        raise json.JSONDecodeError("Extra data", text, position + 1)
    return rows


def _after_gap(text: str, position: int) -> int:
    gap = _GAP.match(text, position)
    return gap.end() if gap else position


def _object_row(number: int, item: Any, faults: list[str]) -> Row:
    if faults:
        return Row(number, {}, faults[0])
    if isinstance(item, dict):
        return Row(number, item)
    return Row(number, {}, f"a JSON {type(item).__name__}, where an object is wanted")


class _Decoder:
    """Python's JSON decoder, with a list of what it would let pass though it is no JSON."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.json = json.JSONDecoder(object_pairs_hook=self._object, parse_constant=self._constant)

    def read(self, text: str) -> tuple[Any, list[str]]:
        return self.json.decode(text), self.faults

    def _constant(self, name: str) -> None:
        self.faults.append(f"holds {name}, which is no JSON number")

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            self.faults.append(f"the key {shown(twice)} stands twice in one object")
        return made
