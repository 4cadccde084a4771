"""An adapter put into the weights of its base: W0 + s·B·A in float32, rounded once, tensor by tensor from file to file.

Nothing but the adapted weights changes, and every tensor keeps the name that the base's files have for it. So what loads the base
loads the result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from agon.errors import ModelError
from agon.model.base import TEXT_PART_KEYS
from agon.model.shards import DTYPES, Entry, StoredModel, write_model
from agon.model.storage import StoredAdapter

_HEAD = "lm_head"
_KEY = re.compile(r"base_model\.model\.(?P<path>.+)\.lora_(?P<part>[AB])\.weight")


class Update(NamedTuple):
    """What an adapter adds to one weight: scale x up x down."""

    down: Tensor
    up: Tensor
    scale: float

    def added_to(self, weight: Tensor) -> Tensor:
        """Return W0 + s·B·A in float32."""
        return torch.addmm(weight.float(), self.up.float(), self.down.float(), alpha=self.scale)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the weight that it belongs to."""
        return self.up.shape[0], self.down.shape[1]


class Source(NamedTuple):
    """Where an adapted weight is read from and written to; the two differ where an output layer shares the embedding's weight."""

    read: str
    write: str


@dataclass(frozen=True, slots=True)
class Rounding:
    """What rounding left of an adapter's update, over all adapted weights.

    `changed_share` of the weights differ from the base's in the number format that was written. `lost` is the size of what was rounded
    away over the size of the update (both as the root of their sum of squares): 0 is nothing, 1 as much as the update itself.
    """

    num_weights: int
    changed_share: float
    lost: float

    @property
    def is_zero(self) -> bool:
        """Whether the adapter changes nothing."""
        return self.lost == 0.0 and self.changed_share == 0.0


class MergePlan:
    """A base's files with an adapter's updates in their places, ready to be written."""

    def __init__(self, stored: StoredModel, adapter: StoredAdapter, *, config: Any) -> None:
        """Find the weight of every adapted layer.

        Raises:
            ModelError: the base is quantised, or keeps a layer's weight under a name or in a shape that this adapter does not tell of.
        """
        if getattr(config, "quantization_config", None) is not None:
            raise ModelError(f"{stored.folder} is quantised: export the adapter without --merge")
        text_config = config.get_text_config()
        self._stored = stored
        self.updates = updates_of(adapter)
        is_composite = text_config is not config
        is_tied = bool(getattr(text_config, "tie_word_embeddings", False))
        self.sources = {
            path: _source(stored.entries, path, update, is_composite=is_composite, is_tied=is_tied)
            for path, update in self.updates.items()
        }
        self.unties_head = any(source.read != source.write for source in self.sources.values())
        """Whether the output layer gets a weight of its own, so that the configuration may not tie it to the embedding."""
        added = {
            source.write: stored.entries[source.read]._replace(name=source.write) for source in self.sources.values()
        }
        self.entries: tuple[Entry, ...] = tuple({**stored.entries, **added}.values())

    @property
    def base_dtype(self) -> torch.dtype:
        """The number format of the adapted weights in the base's files; of several, the coarsest."""
        found = {DTYPES[self._stored.entries[source.read].code] for source in self.sources.values()}
        return max(found, key=lambda dtype: torch.finfo(dtype).eps)

    def num_bytes(self, dtype: torch.dtype | None) -> int:
        """Bytes of all tensors, written in `dtype` (None: each as the base has it)."""
        return sum(entry.rounded_to(dtype).num_bytes for entry in self.entries)

    def base_weight(self, path: str) -> Tensor:
        """Return the weight of an adapted layer as the base's files hold it."""
        return self._stored.read(self.sources[path].read)

    def write(self, folder: Path, dtype: torch.dtype | None, *, measured: torch.dtype | None = None) -> Rounding:
        """Write the merged weights into `folder` in `dtype` (None: each as the base has it), read them back, and say what rounding took.

        What rounding to `measured` would take of them is said instead, where a converter will do that later.

        Raises:
            ModelError: a weight does not fit the number format, or differs when read back.
        """
        tally = _Tally()
        paths = {source.write: path for path, source in self.sources.items()}

        def read(entry: Entry) -> Tensor:
            path = paths.get(entry.name)
            if path is None:
                return _converted(self._stored.read(entry.name), entry)
            weight = self.base_weight(path)
            merged = self.updates[path].added_to(weight)
            written = _converted(merged, entry)
            tally.count(weight, merged, written if measured is None else written.to(measured))
            return written

        write_model(folder, [entry.rounded_to(dtype) for entry in self.entries], read)
        return tally.result()


def updates_of(adapter: StoredAdapter) -> dict[str, Update]:
    """Return an adapter's updates by the path of their layer.

    Raises:
        ModelError: it holds something that is no pair of factors of a linear layer.
    """
    factors: dict[str, dict[str, Tensor]] = {}
    for key, tensor in adapter.tensors.items():
        found = _KEY.fullmatch(key)
        if found is None:
            raise ModelError(f"the adapter holds {key}, which is no factor of a linear layer: it cannot be merged")
        factors.setdefault(found["path"], {})[found["part"]] = tensor
    lacking = next((path for path, parts in factors.items() if len(parts) < 2), None)
    if lacking is not None:
        raise ModelError(f"the adapter holds one of two factors of {lacking}: use another checkpoint")
    scale = adapter.config.lora_alpha / adapter.config.r
    return {path: Update(parts["A"], parts["B"], scale) for path, parts in factors.items()}


def _source(entries: Mapping[str, Entry], path: str, update: Update, *, is_composite: bool, is_tied: bool) -> Source:
    if path == _HEAD and is_tied:
        return _tied_source(entries, update, is_composite=is_composite)
    wanted = f"{path}.weight"
    canonical = {name: _text_name(name) if is_composite else name for name in entries}
    found = [name for name, own in canonical.items() if own == wanted]
    # Files saved from a model without its output layer lack the first part of every name.
    found = found or [name for name, own in canonical.items() if own == wanted.partition(".")[2]]
    if len(found) != 1:
        raise ModelError(
            f"the base's files have {len(found) or 'no'} tensors for the adapted layer {path} (fused or renamed layers): "
            "export the adapter without --merge"
        )
    _check_fits(entries[found[0]], path, update)
    return Source(found[0], found[0])


def _tied_source(entries: Mapping[str, Entry], update: Update, *, is_composite: bool) -> Source:
    """The embedding's weight is the output layer's too; adapted, that becomes a weight of its own."""
    found = [name for name, entry in entries.items() if entry.shape == update.shape and "embed" in name]
    if len(found) != 1 or is_composite:
        raise ModelError(
            f"the adapted output layer shares its weight with the embedding, which is not found among the base's files "
            f"({len(found)} fit): export the adapter without --merge"
        )
    _check_fits(entries[found[0]], _HEAD, update)
    return Source(found[0], f"{_HEAD}.weight")


def _check_fits(entry: Entry, path: str, update: Update) -> None:
    if entry.shape != update.shape or entry.code not in DTYPES:
        raise ModelError(
            f"the base's {entry.name} is {entry.code} of shape {entry.shape}, but the adapter's update of {path} is a matrix of "
            f"{update.shape}: export the adapter without --merge"
        )


def _text_name(name: str) -> str:
    for pattern, replacement in TEXT_PART_KEYS.items():
        name = re.sub(pattern, replacement, name)
    return name


def text_path(path: str, known: Iterable[str]) -> str:
    """Return the path, among the `known` ones of a composite model, of a layer that the text model alone has at `path`.

    Raises:
        ModelError: there is none, or more than one.
    """
    known = tuple(known)
    if path in known:
        return path
    found = [other for other in known if _text_name(f"{other}.") == f"{path}."]
    if len(found) != 1:
        raise ModelError(
            f"the composite base has {len(found) or 'no'} layers for {path}: its adapters cannot be exported"
        )
    return found[0]


def _converted(tensor: Tensor, entry: Entry) -> Tensor:
    dtype = DTYPES.get(entry.code)
    if dtype is None or tensor.dtype == dtype:
        return tensor
    rounded = tensor.to(dtype)
    if not torch.isfinite(rounded).all() and torch.isfinite(tensor).all():
        raise ModelError(
            f"{entry.name} has numbers up to {tensor.abs().max().item():.3g}, too large for {entry.code.lower()}: take bf16 or f32"
        )
    return rounded


class _Tally:
    """Adds up what rounding did to the weights."""

    def __init__(self) -> None:
        self._weights = self._changed = 0
        self._update = self._lost = 0.0

    def count(self, before: Tensor, merged: Tensor, written: Tensor) -> None:
        self._weights += merged.numel()
        self._changed += int((written != before.to(written.dtype)).sum())
        self._update += _squares(merged - before.float())
        self._lost += _squares(merged - written.float())

    def result(self) -> Rounding:
        lost = (self._lost / self._update) ** 0.5 if self._update else 0.0
        return Rounding(self._weights, self._changed / max(1, self._weights), lost)


def _squares(tensor: Tensor) -> float:
    return float(torch.linalg.vector_norm(tensor, dtype=torch.float64)) ** 2
