"""Attention over packed sequences, registered with transformers as `agon_packed` and `agon_packed_flash`.

Sequences lie end to end along one row, so linear layers and logits see no padding. Here they are told apart: on CUDA by
torch's variable-length kernel, elsewhere in padded blocks (`agon.learner.blocks`). The second name takes FlashAttention 4 where it
fits, and is the same otherwise.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import AttentionInterface

from agon.learner import flash
from agon.learner.blocks import Block, attend_by_blocks, plan_blocks

NAME, FLASH_NAME = "agon_packed", "agon_packed_flash"


# Not frozen: torch's compiler takes a frozen dataclass for a constant, and would compile again for every batch.
@dataclass(eq=False)
class Packing:
    """How packed tokens fall into sequences. `offsets` are where they start, and the total; blocks are made when asked for."""

    lengths: tuple[int, ...]
    offsets: Int[Tensor, " sequences_plus_one"]
    max_length: int

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The sequences in padded blocks."""
        return plan_blocks(self.lengths, self.offsets.device)


def plan_packing(lengths: Sequence[int], device: torch.device) -> Packing:
    """Lay out sequences that follow one another."""
    offsets = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)
    if device.type == "cuda":
        offsets = offsets.pin_memory()
    offsets = offsets.to(device, non_blocking=True)
    return Packing(lengths=tuple(lengths), offsets=offsets, max_length=max(lengths))


@contextmanager
def packed_attention_of(config: Any, name: str = NAME) -> Generator[None]:
    """Let the model of this configuration attend by `agon_packed`, or by `agon_packed_flash`, until the block ends."""
    before = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = before


def packed_attention(
    module: Any,
    query: Float[Tensor, "1 heads tokens width"],
    key: Float[Tensor, "1 kv_heads tokens width"],
    value: Float[Tensor, "1 kv_heads tokens value_width"],
    attention_mask: None = None,
    *,
    agon_packing: Packing,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **_: Any,
) -> tuple[Float[Tensor, "1 tokens heads value_width"], None]:
    """Attend causally within each sequence."""
    assert attention_mask is None, "packed attention takes no mask"
    assert dropout == 0.0, "packed attention has no dropout"
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    if _varlen is not None and softcap is None and _fits_varlen(query, value):
        out = _varlen(query, key, value, agon_packing, scale, sliding_window)
    else:
        blocks = agon_packing.blocks
        out = attend_by_blocks(query, key, value, blocks, scale=scale, window=sliding_window, softcap=softcap)
    return out, None


def flash_attention(
    module: Any,
    query: Float[Tensor, "1 heads tokens width"],
    key: Float[Tensor, "1 kv_heads tokens width"],
    value: Float[Tensor, "1 kv_heads tokens value_width"],
    attention_mask: None = None,
    *,
    agon_packing: Packing,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **more: Any,
) -> tuple[Float[Tensor, "1 tokens heads value_width"], None]:
    """`packed_attention`, by FlashAttention 4 for heads that it takes."""
    if softcap is not None or not flash.fits(query, value):
        options = {"scaling": scaling, "sliding_window": sliding_window, "softcap": softcap}
        return packed_attention(module, query, key, value, attention_mask, agon_packing=agon_packing, **options, **more)
    q, k, v = (part[0].transpose(0, 1).contiguous() for part in (query, key, value))
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    longest, offsets = agon_packing.max_length, agon_packing.offsets
    return flash.attend(q, k, v, offsets, longest=longest, scale=scale, window=sliding_window).unsqueeze(0), None


def _find_varlen() -> Callable[..., Tensor] | None:
    if not torch.cuda.is_available():
        return None
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    known = inspect.signature(varlen_attn).parameters
    if not {"window_size", "scale"} <= known.keys():
        return None
    # The kernel lets query heads share a key head; since torch 2.12 it must be told that this is meant.
    must_tell = "enable_gqa" in known

    def run(query: Tensor, key: Tensor, value: Tensor, packing: Packing, scale: float, window: int | None) -> Tensor:
        q, k, v = (part[0].transpose(0, 1).contiguous() for part in (query, key, value))
        options: dict[str, Any] = {"enable_gqa": q.shape[1] != k.shape[1]} if must_tell else {}
        left = -1 if window is None else window - 1
        offsets, longest = packing.offsets, packing.max_length
        out: Any = varlen_attn(
            q, k, v, offsets, offsets, longest, longest, scale=scale, window_size=(left, 0), **options
        )
        return out.unsqueeze(0)

    return run


def _fits_varlen(query: Tensor, value: Tensor) -> bool:
    is_half = query.dtype in (torch.bfloat16, torch.float16)
    return query.is_cuda and is_half and query.shape[-1] == value.shape[-1] <= 256


_varlen = _find_varlen()
AttentionInterface.register(NAME, packed_attention)
AttentionInterface.register(FLASH_NAME, flash_attention)
