"""Matches on disk: gzip of one JSON object a line, the same bytes for the same matches."""

from __future__ import annotations

import gzip
import json
import types
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Union, cast, get_args, get_origin, get_type_hints

from agon.errors import RunError
from agon.records import Match
from agon.runs.atomic import atomic_file, input_errors
from agon.runs.reading import parse_bulk_json

MAX_LINE_BYTES = 256 * 1024 * 1024
"""Longest match that is read. One of eight drafts of 32,000 tokens has a few megabytes; a packed file may hold what fills the memory."""


class _NoRoomError(Exception):
    """The matches take more bytes than they may."""


def write_matches(path: Path, matches: Iterable[Match], *, max_bytes: int | None = None) -> bool:
    """Write matches, whole or not at all; return whether they took at most `max_bytes` (None: any number) and are kept.

    A match whose line is longer than `MAX_LINE_BYTES` is left out with a warning: it could not be read back.

    Raises:
        RunError: the place cannot be written to.
    """
    num_left_out = 0
    try:
        with atomic_file(path) as raw:
            # No name and no time in the gzip header: the same matches give the same bytes.
            with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as stream:
                for match in matches:
                    line = json.dumps(match, default=_fields, ensure_ascii=False, allow_nan=False)
                    # A question may hold half of a surrogate pair: JSON can say that, strict UTF-8 cannot.
                    encoded = line.encode(errors="surrogatepass") + b"\n"
                    if len(encoded) >= MAX_LINE_BYTES:
                        num_left_out += 1
                        continue
                    stream.write(encoded)
                    _require_room(raw, max_bytes)
            _require_room(raw, max_bytes)
    except _NoRoomError:
        return False
    if num_left_out:
        warnings.warn(f"{path} lacks {num_left_out} matches, each longer than {MAX_LINE_BYTES:,} bytes", stacklevel=2)
    return True


def read_matches(path: Path) -> Iterator[Match]:
    """Yield the matches of a file one by one.

    Raises:
        RunError: the file is missing, damaged (names the line), or cannot be read.
    """
    with input_errors(path):
        yield from _read_matches(path)


def _read_matches(path: Path) -> Iterator[Match]:
    number = 0
    try:
        if path.stat().st_size == 0:
            raise EOFError("it is empty")
        with path.open("rb") as raw, gzip.open(raw, "rb") as stream:
            while line := stream.readline(MAX_LINE_BYTES):
                number += 1
                if len(line) == MAX_LINE_BYTES:
                    raise ValueError(f"it is longer than {MAX_LINE_BYTES:,} bytes")
                yield match_from_json(parse_bulk_json(line))
    except FileNotFoundError:
        raise RunError(f"{path} is missing: the run folder is incomplete") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise RunError(f"{path} is damaged after line {number} ({error}): restore it from a copy") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(f"{path}, line {number} is not a match ({error}): restore it from a copy") from None


def _require_room(raw: BinaryIO, max_bytes: int | None) -> None:
    if max_bytes is not None and raw.tell() > max_bytes:
        raise _NoRoomError


def match_from_json(tree: Mapping[str, Any]) -> Match:
    """Rebuild the record that `records.to_json` turned into plain JSON types.

    Raises:
        KeyError: a field without a default is missing.
        TypeError: a value has another shape than the record.
    """
    return cast(Match, _decode(Match, tree))


def _fields(record: Any) -> dict[str, Any]:
    """Give the encoder a record's fields: `records.to_json` would copy every one of its thousands of token ids first."""
    if isinstance(record, Mapping):
        return dict(record)
    return {item.name: getattr(record, item.name) for item in fields(record)}


def _decode(kind: Any, value: Any) -> Any:
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        required = [item.name for item in fields(kind) if item.default is MISSING and item.default_factory is MISSING]
        missing = [name for name in required if name not in value]
        if missing:
            raise KeyError(f"{kind.__name__} without {', '.join(missing)}")
        return kind(**{name: _decode(hint, value[name]) for name, hint in hints.items() if name in value})
    origin = get_origin(kind)
    if origin is tuple:
        (inner, *_) = get_args(kind)
        # Token ids and logprobs are long: numbers and texts need no call each.
        return tuple(value) if inner in (int, float, str) else tuple(_decode(inner, item) for item in value)
    if origin in (Union, types.UnionType):
        options = [option for option in get_args(kind) if option is not type(None)]
        return None if value is None else _decode(options[0], value)
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
