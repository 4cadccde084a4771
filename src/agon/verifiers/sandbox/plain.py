"""Plain data as bytes, in a format of our own: what may cross between the trusted and the untrusted side, and nothing else.

The writing side takes a value only by its exact type, so a subclass, or an object with an `__eq__` of its own, is refused. The reading
side trusts nothing: whatever bytes come, it builds values of the types named here, within limits on size, depth and time.
"""

from __future__ import annotations

import itertools
import re
import struct
import time
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

MAX_DEPTH = 200
MAX_VALUES = 1_000_000
# Honest keys have fewer: only -1 and -2, and what holds them, share hashes.
_MAX_SAME_HASH = 100
_INSERTS_PER_LOOK_AT_THE_CLOCK = 64
_VALUES_PER_LOOK_AT_THE_CLOCK = 4096
_LENGTH = struct.Struct("<I")
_SMALL = struct.Struct("<q")
_FLOAT = struct.Struct("<d")
_COMPLEX = struct.Struct("<dd")


class NotPlainError(Exception):
    """A value that may not cross: of another type, too deep, or too large."""


class Opaque:
    """Stands for a value that is known only to be true and to equal nothing but itself: a match of a regular expression."""

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name

    def __repr__(self) -> str:
        return f"<{self.type_name}>"


def encode(value: Any, *, max_bytes: int, is_from_program: bool = False) -> bytes:
    """Write a value as bytes.

    What comes from a program may hold named tuples, which are written as tuples. A program is given none: it would use their names.

    Raises:
        NotPlainError: it is not plain data, nested deeper than MAX_DEPTH (or in itself), or longer than `max_bytes`.
    """
    writer = _Writer(max_bytes, is_from_program)
    writer.write(value, 0)
    return bytes(writer.out)


def decode(data: bytes, *, deadline: float | None = None) -> Any:
    """Read a value back. `deadline` is on `time.thread_time`'s clock: keys chosen to collide make building a set or dict slow.

    Raises:
        NotPlainError: the bytes are no value of this format, or break its limits.
        TimeoutError: the deadline passed.
    """
    reader = _Reader(data, deadline)
    try:
        value = reader.read(0)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise NotPlainError(f"not in the format: {error}") from None
    except RecursionError:
        raise NotPlainError("nested deeper than can be followed here") from None
    if reader.at != len(data):
        raise NotPlainError("more bytes than one value")
    return value


class _Writer:
    def __init__(self, max_bytes: int, is_from_program: bool) -> None:
        self.out = bytearray()
        self._is_from_program = is_from_program
        self._max_bytes = max_bytes
        self._num_values = 0

    def write(self, value: Any, depth: int) -> None:
        kind = type(value)
        self._num_values += 1
        if self._num_values > MAX_VALUES:
            raise NotPlainError(f"more than {MAX_VALUES} values")
        if depth > MAX_DEPTH:
            raise NotPlainError(f"nested deeper than {MAX_DEPTH}")
        out = self.out
        if value is None:
            out += b"N"
        elif kind is int:
            self._write_int(value)
        elif kind is str:
            self._write_sized(b"s", value.encode("utf-8", "surrogatepass"))
        elif kind is bool:
            out += b"T" if value else b"F"
        elif kind is float:
            out += b"f" + _FLOAT.pack(value)
        elif kind in _SEQUENCES:
            items = itertools.chain.from_iterable(value) if kind is _PAIRS else value
            self._write_all(_SEQUENCES[kind], list(items), depth)
        elif kind in _MAPPINGS:
            self._write_all(_MAPPINGS[kind], list(itertools.chain.from_iterable(value.items())), depth)
        else:
            self._write_rare(value, kind, depth)

    def _write_rare(self, value: Any, kind: type, depth: int) -> None:
        if kind is complex:
            self.out += b"c" + _COMPLEX.pack(value.real, value.imag)
        elif kind is bytes:
            self._write_sized(b"b", value)
        elif kind is bytearray:
            self._write_sized(b"B", bytes(value))
        elif kind is range:
            self._write_all(b"r", [value.start, value.stop, value.step], depth)
        elif kind in _ITERATORS:
            self._write_all(b"g", self._drained(value), depth)
        elif kind is re.Match or kind is Opaque:
            self.out += b"m"
        elif self._is_from_program and _is_named_tuple(kind):
            self._write_all(b"t", list(tuple.__iter__(value)), depth)
        elif (
            kind.__module__ == "numpy"
            and hasattr(value, "item")
            and (issubclass(kind, str | bytes) or not hasattr(value, "__len__"))
        ):
            self._write_numpy(value, kind, depth)
        else:
            raise NotPlainError(f"a value of type {kind.__name__}"[:200])

    def _write_numpy(self, value: Any, kind: type, depth: int) -> None:
        item = value.item()
        if type(item) is kind:  # a number of more digits than Python's
            item = complex(value) if kind.__name__.startswith("clong") else float(value)
        self.write(item, depth + 1)

    def _drained(self, iterator: Iterable[Any]) -> list[Any]:
        items: list[Any] = []
        for item in iterator:
            items.append(item)
            if len(items) > MAX_VALUES:
                raise NotPlainError(f"more than {MAX_VALUES} values")
        return items

    def _write_int(self, value: int) -> None:
        if -(2**63) <= value < 2**63:
            self.out += b"j" + _SMALL.pack(value)
        else:
            self._write_sized(b"i", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))

    def _write_sized(self, tag: bytes, data: bytes) -> None:
        if len(self.out) + len(data) > self._max_bytes:
            raise NotPlainError(f"more than {self._max_bytes} bytes")
        self.out += tag + _LENGTH.pack(len(data)) + data

    def _write_all(self, tag: bytes, items: list[Any], depth: int) -> None:
        if len(self.out) + len(items) > self._max_bytes:
            raise NotPlainError(f"more than {self._max_bytes} bytes")
        self.out += tag + _LENGTH.pack(len(items))
        for item in items:
            self.write(item, depth + 1)


class _Reader:
    def __init__(self, data: bytes, deadline: float | None) -> None:
        self.at = 0
        self._data = data
        self._deadline = deadline
        self._num_values = 0

    def read(self, depth: int) -> Any:
        self._num_values += 1
        if depth > MAX_DEPTH or self._num_values > MAX_VALUES:
            raise NotPlainError(f"nested deeper than {MAX_DEPTH} or more than {MAX_VALUES} values")
        if self._num_values % _VALUES_PER_LOOK_AT_THE_CLOCK == 0:
            self._look_at_the_clock()
        tag = self._data[self.at]
        self.at += 1
        if tag == 0x6A:  # j
            return _SMALL.unpack(self.take(8))[0]
        if tag == 0x73:  # s
            return self.sized().decode("utf-8", "surrogatepass")
        if (read := _READERS.get(tag)) is not None:
            return read(self)
        make = _MAKERS.get(tag)
        if make is None:
            raise NotPlainError(f"no value starts with byte {tag}")
        count: int = _LENGTH.unpack(self.take(4))[0]
        if count > len(self._data) - self.at:
            raise NotPlainError("cut off")
        # One frame a level, so no comprehension: whoever reads may already be deep in calls of his own.
        items: list[Any] = []
        for _ in range(count):
            items.append(self.read(depth + 1))
        return make(self, items)

    def take(self, count: int) -> bytes:
        piece = self._data[self.at : self.at + count]
        if len(piece) != count:
            raise NotPlainError("cut off")
        self.at += count
        return piece

    def sized(self) -> bytes:
        return self.take(_LENGTH.unpack(self.take(4))[0])

    def fill_set(self, made: set[Any], keys: list[Any]) -> set[Any]:
        self._insert(keys, made.add)
        return made

    def fill(self, made: dict[Any, Any], items: list[Any]) -> dict[Any, Any]:
        if len(items) % 2:
            raise NotPlainError("a key without a value")
        values = iter(items[1::2])
        self._insert(items[::2], lambda key: made.__setitem__(key, next(values)))
        return made

    def _insert(self, keys: list[Any], insert: Callable[[Any], None]) -> None:
        try:
            _refuse_collisions(keys)
            for count, key in enumerate(keys):
                if count % _INSERTS_PER_LOOK_AT_THE_CLOCK == 0:
                    self._look_at_the_clock()
                insert(key)
        except TypeError:
            raise NotPlainError("a key that cannot be hashed") from None

    def _look_at_the_clock(self) -> None:
        if self._deadline is not None and time.thread_time() > self._deadline:
            raise TimeoutError("rebuilding the value took too long")


def _refuse_collisions(keys: list[Any]) -> None:
    # Each is compared with all others of its hash, here and wherever the value is copied: chosen keys would take minutes.
    if len(keys) > _MAX_SAME_HASH and max(Counter(map(hash, keys)).values()) > _MAX_SAME_HASH:
        raise NotPlainError(f"keys that collide: over {_MAX_SAME_HASH} of one hash")


def _progression(items: list[Any]) -> range:
    if len(items) != 3 or any(type(item) is not int for item in items) or items[2] == 0:
        raise NotPlainError("no range")
    return range(*items)


def _is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields") and kind.__eq__ is tuple.__eq__


_KEYS, _VALUES, _PAIRS = type({}.keys()), type({}.values()), type({}.items())
_SEQUENCES: dict[type, bytes] = {
    list: b"l",
    tuple: b"t",
    set: b"e",
    frozenset: b"z",
    deque: b"q",
    _KEYS: b"k",
    _VALUES: b"v",
    _PAIRS: b"x",
}
# A defaultdict arrives as a dict: its factory is no plain data, and it equals the dict.
_MAPPINGS: dict[type, bytes] = {dict: b"d", Counter: b"C", OrderedDict: b"O", defaultdict: b"d"}
_EMPTY: tuple[Any, ...] = (
    [],
    (),
    set(),
    {},
    "",
    b"",
    bytearray(),
    deque(),
    range(0),
    range(2**70),
    {}.values(),
    {}.items(),
)
# All of them arrive as an iterator over a list: true, equal to nothing, used up once.
_ITERATORS: set[type] = {
    *(type(iter(empty)) for empty in _EMPTY),
    *(type(reversed(empty)) for empty in ([], {}, {}.values(), {}.items(), deque[Any](), range(0))),
    *(kind for kind in vars(itertools).values() if isinstance(kind, type)),
    *(types.GeneratorType, map, filter, zip, enumerate, reversed),
}

_READERS: dict[int, Callable[[_Reader], Any]] = {
    ord("N"): lambda reader: None,
    ord("T"): lambda reader: True,
    ord("F"): lambda reader: False,
    ord("i"): lambda reader: int.from_bytes(reader.sized(), "little", signed=True),
    ord("f"): lambda reader: _FLOAT.unpack(reader.take(8))[0],
    ord("c"): lambda reader: complex(*_COMPLEX.unpack(reader.take(16))),
    ord("b"): lambda reader: reader.sized(),
    ord("B"): lambda reader: bytearray(reader.sized()),
    ord("m"): lambda reader: Opaque("re.Match"),
}
_MAKERS: dict[int, Callable[[_Reader, list[Any]], Any]] = {
    ord("r"): lambda reader, items: _progression(items),
    ord("l"): lambda reader, items: items,
    ord("t"): lambda reader, items: tuple(items),
    ord("e"): lambda reader, items: reader.fill_set(set(), items),
    ord("z"): lambda reader, items: frozenset(reader.fill_set(set(), items)),
    ord("q"): lambda reader, items: deque(items),
    ord("k"): lambda reader, items: reader.fill({}, [part for key in items for part in (key, None)]).keys(),
    ord("v"): lambda reader, items: dict(enumerate(items)).values(),
    ord("x"): lambda reader, items: reader.fill({}, items).items(),
    ord("d"): lambda reader, items: reader.fill({}, items),
    ord("C"): lambda reader, items: reader.fill(Counter(), items),
    ord("O"): lambda reader, items: reader.fill(OrderedDict(), items),
    ord("g"): lambda reader, items: iter(items),
}
