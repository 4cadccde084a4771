"""The weights of a model folder tensor by tensor: where each is, and files of them written without holding more than one.

A safetensors file begins with a table of names, types, shapes and places, so that it can be written as a stream once these are known.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from agon.errors import ModelError
from agon.model.locate import INDEX_FILE, WEIGHTS_FILE, weight_files

MAX_SHARD_BYTES = 5_000_000_000

DTYPES: Mapping[str, torch.dtype] = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""The number formats that can be merged and rounded to, as safetensors names them."""
_BITS = {"F64": 64, "I64": 64, "U64": 64, "I32": 32, "U32": 32, "I16": 16, "U16": 16, "I8": 8, "U8": 8, "BOOL": 8}
_CODES = {dtype: code for code, dtype in DTYPES.items()}


class Entry(NamedTuple):
    """A tensor in a file: its name, its number format as safetensors names it, and its shape."""

    name: str
    code: str
    shape: tuple[int, ...]

    @property
    def item_bytes(self) -> int:
        """Bytes of one number."""
        return DTYPES[self.code].itemsize if self.code in DTYPES else _BITS[self.code] // 8

    @property
    def num_bytes(self) -> int:
        """Bytes of the whole tensor."""
        return math.prod(self.shape) * self.item_bytes

    def rounded_to(self, dtype: torch.dtype | None) -> Entry:
        """Return the same tensor in another number format; None, and what is no floating-point number, leaves it as it is."""
        return self if dtype is None or self.code not in DTYPES else self._replace(code=_CODES[dtype])


class StoredModel:
    """The tensors of a model folder, read one at a time, from the files that transformers would read."""

    def __init__(self, folder: Path) -> None:
        """Read the tables of all files.

        Raises:
            ModelError: a file is missing or damaged, or holds numbers that are quantised.
        """
        self.folder = folder
        self.entries: dict[str, Entry] = {}
        self._files: dict[str, Any] = {}
        for path in weight_files(folder):
            try:
                file = safe_open(path, framework="pt")
                found = [_entry(file, name, path) for name in file.keys()]  # noqa: SIM118 - a handle, not a dict
            except (SafetensorError, OSError) as error:
                raise ModelError(f"{path} is missing or damaged ({error}): get the model again") from None
            self.entries |= {entry.name: entry for entry in found}
            self._files |= {entry.name: file for entry in found}

    def read(self, name: str) -> Tensor:
        """Return one tensor, on the CPU.

        Raises:
            ModelError: the file has been damaged or removed since.
        """
        try:
            return self._files[name].get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{self.folder}: {name} cannot be read ({error}): get the model again") from None


def write_model(
    folder: Path,
    entries: Sequence[Entry],
    read: Callable[[Entry], Tensor],
    *,
    max_shard_bytes: int = MAX_SHARD_BYTES,
) -> None:
    """Write tensors as one safetensors file, or as several with an index where they are larger than `max_shard_bytes`, and read them back.

    `read` is asked for each tensor once; no two are held at a time.

    Raises:
        ModelError: a tensor read back differs from what was written.
    """
    shards = split(entries, max_shard_bytes)
    names = _shard_names(len(shards))
    hashes: dict[str, str] = {}
    for name, shard in zip(names, shards, strict=True):
        hashes |= _write_shard(folder / name, shard, read)
    if len(shards) > 1:
        index = {
            "metadata": {"total_size": sum(entry.num_bytes for entry in entries)},
            "weight_map": {entry.name: name for name, shard in zip(names, shards, strict=True) for entry in shard},
        }
        (folder / INDEX_FILE).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    _check_written(folder, hashes)


def split(entries: Sequence[Entry], max_bytes: int) -> list[list[Entry]]:
    """Divide tensors among files of at most `max_bytes` in their order; a tensor that is larger has a file of its own."""
    shards: list[list[Entry]] = [[]]
    size = 0
    for entry in entries:
        if shards[-1] and size + entry.num_bytes > max_bytes:
            shards.append([])
            size = 0
        shards[-1].append(entry)
        size += entry.num_bytes
    return shards


def _entry(file: Any, name: str, path: Path) -> Entry:
    part = file.get_slice(name)
    code = str(part.get_dtype())
    if code not in DTYPES and code not in _BITS:
        raise ModelError(
            f"{path}: {name} is stored as {code}, a quantised number format: export the adapter without --merge"
        )
    return Entry(name, code, tuple(part.get_shape()))


def _shard_names(count: int) -> list[str]:
    if count == 1:
        return [WEIGHTS_FILE]
    return [f"model-{number:05d}-of-{count:05d}.safetensors" for number in range(1, count + 1)]


def _write_shard(path: Path, shard: Sequence[Entry], read: Callable[[Entry], Tensor]) -> dict[str, str]:
    """Write one file and return the hash of each tensor in it."""
    # Wide numbers first, so that every tensor begins at a multiple of its numbers' size.
    ordered = sorted(shard, key=lambda entry: -entry.item_bytes)
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    place = 0
    for entry in ordered:
        header[entry.name] = {
            "dtype": entry.code,
            "shape": list(entry.shape),
            "data_offsets": [place, place + entry.num_bytes],
        }
        place += entry.num_bytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text = text.ljust(-(-len(text) // 8) * 8)
    hashes: dict[str, str] = {}
    with path.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for entry in ordered:
            tensor = read(entry)
            assert tuple(tensor.shape) == entry.shape, f"{entry.name} has shape {tuple(tensor.shape)}: {entry}"
            data = _bytes_of(tensor)
            assert data.nbytes == entry.num_bytes, f"{entry.name} has {data.nbytes} bytes: {entry}"
            stream.write(data)
            hashes[entry.name] = hashlib.sha256(data).hexdigest()
    return hashes


def _check_written(folder: Path, hashes: Mapping[str, str]) -> None:
    written = StoredModel(folder)
    for name, expected in hashes.items():
        if hashlib.sha256(_bytes_of(written.read(name))).hexdigest() != expected:
            raise ModelError(f"{folder}: {name} read back differs from what was written: the disk may be failing")


def _bytes_of(tensor: Tensor) -> memoryview:
    # reshape first: the bytes of a tensor without dimensions cannot be viewed as such.
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data
