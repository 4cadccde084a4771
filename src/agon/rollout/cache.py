"""Keys, values and states of the rows being decoded, kept so that rows can leave and join between steps.

All rows write to the same *slot* at the same step: a row's prompt stands right before the slot at which it joined, and its mask
hides what is further left. Writing is then a slice instead of a scatter, and a sliding window is the same slice for all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import cache_utils
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

SPARE_SLOTS = 32
_StateLayer: Any = getattr(cache_utils, "LinearAttentionLayer", None)
_DummyLayer: Any = getattr(cache_utils, "DummyLayer", None)
_STATE_KINDS = ("conv_states", "recurrent_states")
_LAYER_TYPES = frozenset({"full_attention", "sliding_attention", "linear_attention"})


def prefill_cache(config: Any) -> Cache:
    """Make an empty cache that keeps everything a prompt leaves behind, sliding windows included."""
    layers = DynamicCache(config=config).layers
    return Cache(layers=[DynamicLayer() if type(layer) is DynamicSlidingWindowLayer else layer for layer in layers])


def can_prune(config: Any) -> bool:
    """Say whether every layer of this configuration keeps a kind of state that rows can be taken out of."""
    if not set(getattr(config, "layer_types", None) or ()) <= _LAYER_TYPES:
        return False
    known = {DynamicLayer, DynamicSlidingWindowLayer, _StateLayer, _DummyLayer}
    return all(type(layer) in known for layer in DynamicCache(config=config).layers)


def has_running_state(config: Any) -> bool:
    """Say whether some layer carries a state along the sequence, which padding would enter."""
    return any(_is_state(layer) for layer in DynamicCache(config=config).layers)


class _Frame:
    """Where all layers of one cache read and write at this step."""

    def __init__(self, slot: int) -> None:
        self.rows = 0
        self.slot = slot
        self.low = slot


class SlotLayer(CacheLayerMixin):
    """Keys and values of one attention layer, `[rows, heads, slots, width]`, allocated ahead."""

    def __init__(self, frame: _Frame, window: int | None) -> None:
        super().__init__()
        self._frame = frame
        self._window = window

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to do: `allocate` is called with the size that will be needed."""

    def allocate(self, prefilled: Any, num_rows: int, num_slots: int) -> None:
        """Reserve room for `num_rows` rows of the shape of those in a prefilled layer."""
        self.keys = _new_room(prefilled.keys, num_rows, num_slots)
        self.values = _new_room(prefilled.values, num_rows, num_slots)
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Float[Tensor, "rows heads slots width"], Float[Tensor, "rows heads slots width"]]:
        """Write one token a row and return all that this layer may look at."""
        frame = self._frame
        keys, values = self._room()
        keys[: frame.rows, :, frame.slot] = key_states[:, :, 0]
        values[: frame.rows, :, frame.slot] = value_states[:, :, 0]
        low, high = self._low(), frame.slot + 1
        return keys[: frame.rows, :, low:high], values[: frame.rows, :, low:high]

    def place(self, first_row: int, prefilled: Any, rows: Int[Tensor, " joining"], length: int) -> None:
        """Copy the first `length` positions of the `rows` of a prefilled layer to the rows from `first_row` on."""
        low, high, last = self._frame.slot - length, self._frame.slot, first_row + len(rows)
        for mine, theirs in zip(self._room(), (prefilled.keys, prefilled.values), strict=True):
            mine[first_row:last, :, low:high] = theirs[rows, :, :length]

    def move(self, to: Int[Tensor, " moved"], origin: Int[Tensor, " moved"]) -> None:
        """Copy rows over rows that have ended."""
        for states in self._room():
            used = states[:, :, self._frame.low : self._frame.slot]
            used[to] = used[origin]

    def resize(self, num_rows: int, num_slots: int, dropped: int) -> None:
        """Move to new room that lacks the first `dropped` slots, or has so many more before them if it is negative."""
        keys, values = self._room()
        self.keys = self._moved(keys, _new_room(keys, num_rows, num_slots), dropped)
        self.values = self._moved(values, _new_room(values, num_rows, num_slots), dropped)

    def get_seq_length(self) -> int:
        """Count the slots in use."""
        return self._frame.slot - self._frame.low

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return length and offset of what `update` gives back."""
        return self._frame.slot + 1 - self._low(), 0

    def get_max_length(self) -> int:
        """Say that there is no limit: `resize` makes room."""
        return -1

    def _low(self) -> int:
        frame = self._frame
        return frame.low if self._window is None else max(frame.low, frame.slot + 1 - self._window)

    def _room(self) -> tuple[Tensor, Tensor]:
        keys, values = self.keys, self.values
        assert keys is not None, "a row joins before anything is decoded"
        assert values is not None, "keys and values are allocated together"
        return keys, values

    def _moved(self, old: Tensor, new: Tensor, dropped: int) -> Tensor:
        low, rows = max(0, dropped), self._frame.rows
        new[:rows, :, low - dropped : self._frame.slot - dropped] = old[:rows, :, low : self._frame.slot]
        return new


class DecodeCache(Cache):
    """The cache of the rows that join by `admit` and leave by `select`.

    There is always room for `room` rows and for prompts of `longest_prompt` tokens. For more and longer ones it is made as they come;
    that of rows is given up some time after they have left.
    """

    def __init__(self, config: Any, *, room: int, longest_prompt: int) -> None:
        frame = _Frame(longest_prompt)
        layers = [
            SlotLayer(frame, layer.sliding_window if type(layer) is DynamicSlidingWindowLayer else None)
            if isinstance(layer, DynamicLayer)
            else layer
            for layer in DynamicCache(config=config).layers
        ]
        super().__init__(layers=layers)
        self._frame = frame
        self._slot_layers = [(i, layer) for i, layer in enumerate(layers) if isinstance(layer, SlotLayer)]
        self._state_layers = [(i, layer) for i, layer in enumerate(layers) if _is_state(layer)]
        self._least_room = self._room = room
        self._longest_prompt = longest_prompt
        self._num_slots = 0
        self._starts: list[int] = []
        self._hidden: Tensor | None = None

    @property
    def num_rows(self) -> int:
        """Rows being decoded."""
        return self._frame.rows

    def admit(self, prefilled: Cache, rows: Sequence[int], lengths: Sequence[int]) -> None:
        """Let rows join at the end: a copy of row `rows[i]` of a prefilled cache, `lengths[i]` tokens long, for each i."""
        self._make_room(prefilled, len(rows), max(lengths))
        first = self._frame.rows
        for start, end in _runs(lengths):
            index = torch.tensor(rows[start:end], device=self._device(prefilled))
            for layer, mine in self._slot_layers:
                mine.place(first + start, prefilled.layers[layer], index, lengths[start])
        if self._state_layers:
            index = torch.tensor(rows, device=self._device(prefilled))
            for layer, mine in self._state_layers:
                _join_states(mine, prefilled.layers[layer], index)
        self._starts += [self._frame.slot - length for length in lengths]
        self._set_rows()

    def select(self, rows: Sequence[int]) -> None:
        """Let row i be what row `rows[i]` was; rows that are not named leave."""
        moves = [(to, origin) for to, origin in enumerate(rows) if to != origin]
        if rows and moves:
            to, origin = torch.tensor(moves, device=self._some_tensor().device).unbind(1)
            for _, layer in self._slot_layers:
                layer.move(to, origin)
        if self._state_layers:
            index = torch.tensor(rows, dtype=torch.long, device=self._some_tensor().device)
            for _, layer in self._state_layers:
                _select_states(layer, index)
        self._starts = [self._starts[row] for row in rows]
        self._set_rows()

    def mask(self) -> Float[Tensor, "rows 1 1 slots"] | None:
        """Return what to add to attention scores at this step: -inf where a row has no token. None if nothing is hidden."""
        if self._hidden is None:
            return None
        # A copy: the fused attention kernels read a mask at aligned addresses.
        return self._hidden[:, :, :, self._frame.low : self._frame.slot + 1].clone()

    def begin_step(self) -> None:
        """Make sure that there is a slot to write to."""
        if self._frame.slot == self._num_slots:
            self._resize(self._frame.rows)

    def end_step(self) -> None:
        """Go on to the next slot."""
        self._frame.slot += 1

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Count the slots in use."""
        return self._frame.slot - self._frame.low

    def _make_room(self, prefilled: Cache, num_joining: int, longest: int) -> None:
        num_rows = self._frame.rows + num_joining
        self._longest_prompt = max(self._longest_prompt, longest)
        if self._num_slots == 0:
            self._room = self._room_for(num_rows)
            self._frame.slot = self._frame.low = self._longest_prompt
            self._num_slots = self._frame.slot + SPARE_SLOTS
            for layer, mine in self._slot_layers:
                mine.allocate(prefilled.layers[layer], self._room, self._num_slots)
        elif num_rows > self._room or longest > self._frame.slot:
            self._resize(num_rows)

    def _room_for(self, num_rows: int) -> int:
        """Return the least room, doubled until the rows fit: few sizes, so that growing costs little however slowly it goes."""
        room = self._least_room
        while room < num_rows:
            room *= 2
        return room

    def _resize(self, num_rows: int) -> None:
        # A prompt that joins later must still fit before the slot: where it would not, slots are added in front.
        dropped = min(self._frame.low, self._frame.slot - self._longest_prompt)
        used = self._frame.slot - dropped
        self._room = self._room_for(num_rows)
        self._num_slots = used + used // 4 + SPARE_SLOTS
        for _, layer in self._slot_layers:
            layer.resize(self._room, self._num_slots, dropped)
        self._frame.slot -= dropped
        self._starts = [start - dropped for start in self._starts]
        self._set_rows()

    def _set_rows(self) -> None:
        frame, starts = self._frame, self._starts
        frame.rows = len(starts)
        frame.low = min(starts, default=frame.slot)
        self._hidden = None
        if frame.rows and self._slot_layers and max(starts) > frame.low:
            like = self._some_tensor()
            slots = torch.arange(self._num_slots, device=like.device)
            is_hidden = slots < torch.tensor(starts, device=like.device).unsqueeze(1)
            zeros = torch.zeros(is_hidden.shape, dtype=like.dtype, device=like.device)
            self._hidden = zeros.masked_fill_(is_hidden, float("-inf"))[:, None, None, :]

    def _some_tensor(self) -> Tensor:
        for _, layer in self._slot_layers:
            if layer.keys is not None:
                return layer.keys
        return next(states for _, layer in self._state_layers for states in _states(layer).values())

    @staticmethod
    def _device(prefilled: Cache) -> torch.device:
        for layer in prefilled.layers:
            if isinstance(layer, DynamicLayer) and layer.keys is not None:
                return layer.keys.device
        return next(
            states.device for layer in prefilled.layers if _is_state(layer) for states in _states(layer).values()
        )


def _new_room(like: Tensor, rows: int, num_slots: int) -> Tensor:
    # Zeros, not empty: a hidden slot has weight 0, and 0 times a NaN left in memory is NaN.
    _, heads, _, width = like.shape
    return like.new_zeros(rows, heads, num_slots, width)


def _runs(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Return (start, end) of each run of equal neighbours."""
    edges = [0, *(i for i in range(1, len(lengths)) if lengths[i] != lengths[i - 1]), len(lengths)]
    return list(pairwise(edges))


def _is_state(layer: Any) -> bool:
    return _StateLayer is not None and isinstance(layer, _StateLayer)


def _states(layer: Any) -> dict[tuple[str, int], Tensor]:
    found: dict[tuple[str, int], Tensor] = {}
    for kind in _STATE_KINDS:
        states: Any = getattr(layer, kind)
        for key, tensor in states.items():
            if tensor is not None:
                found[kind, key] = tensor
    return found


def _join_states(mine: Any, prefilled: Any, rows: Int[Tensor, " joining"]) -> None:
    old = _states(mine)
    if not old:
        # A layer also remembers which of its states have been set up: start as a copy of one that has run.
        mine.__dict__.update(
            {name: dict(value) if isinstance(value, dict) else value for name, value in vars(prefilled).items()}
        )
    for (kind, key), tensor in _states(prefilled).items():
        joining = tensor[rows]
        getattr(mine, kind)[key] = torch.cat((old[kind, key], joining)) if old else joining


def _select_states(layer: Any, rows: Int[Tensor, " staying"]) -> None:
    for (kind, key), tensor in _states(layer).items():
        getattr(layer, kind)[key] = tensor[rows]
