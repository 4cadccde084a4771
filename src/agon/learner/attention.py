"""Attention over packed sequences, registered with transformers as `agon_packed`.

Sequences lie end to end along one row, so linear layers and logits see no padding. Here they are told apart: on CUDA by
torch's variable-length kernel, elsewhere by gathering sequences of like length into small padded blocks. Padding stands at
the end of a block's rows, where causal attention of real tokens never looks.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F
from transformers import AttentionInterface

NAME = "agon_packed"

# Below this length scores are kept and plain products beat torch's fused CPU kernel threefold; above, memory decides.
_PLAIN_LENGTH = 256
# Rows of a block are at least this full, and a block is small enough to stay in a core's cache.
_FULLNESS = 0.85
_BLOCK_TOKENS = 512


@dataclass(frozen=True, slots=True)
class Block:
    """Neighbouring sequences of like length: `rows` x `length` slots.

    `gather` names the packed token of each slot (any token for padding), `scatter` the slot of each token. Both count from the
    block's own `start`.
    """

    start: int
    stop: int
    rows: int
    length: int
    gather: Int[Tensor, " slots"]
    scatter: Int[Tensor, " tokens"]
    is_padding: Int[Tensor, " padding"]


@dataclass(frozen=True, slots=True)
class Packing:
    """How packed tokens fall into sequences, for both kernels."""

    blocks: tuple[Block, ...]
    offsets: Int[Tensor, " sequences_plus_one"]
    max_length: int


def plan_packing(lengths: Sequence[int], device: torch.device) -> Packing:
    """Lay out sequences that follow one another; sorted by length they waste the least."""
    blocks: list[Block] = []
    first, start = 0, 0
    while first < len(lengths):
        last = _block_end(lengths, first)
        blocks.append(_make_block(lengths[first:last], start, device))
        start += sum(lengths[first:last])
        first = last
    offsets = torch.zeros(len(lengths) + 1, dtype=torch.int32)
    offsets[1:] = torch.tensor(list(lengths)).cumsum(0)
    return Packing(blocks=tuple(blocks), offsets=offsets.to(device), max_length=max(lengths))


def _block_end(lengths: Sequence[int], first: int) -> int:
    longest, total = 0, 0
    for last in range(first, len(lengths)):
        longest, total = max(longest, lengths[last]), total + lengths[last]
        slots = longest * (last + 1 - first)
        if last > first and (total < _FULLNESS * slots or slots > _BLOCK_TOKENS):
            return last
    return len(lengths)


def _make_block(lengths: Sequence[int], start: int, device: torch.device) -> Block:
    rows, longest, total = len(lengths), max(lengths), sum(lengths)
    counts = torch.tensor(list(lengths))
    column = torch.arange(longest)
    is_token = column < counts[:, None]
    gather = torch.where(is_token, (counts.cumsum(0) - counts)[:, None] + column, 0).reshape(-1)
    scatter = is_token.reshape(-1).nonzero().squeeze(1)
    padding = (~is_token).reshape(-1).nonzero().squeeze(1)
    return Block(start, start + total, rows, longest, gather.to(device), scatter.to(device), padding.to(device))


@contextmanager
def packed_attention_of(config: Any) -> Generator[None]:
    """Let the model of this configuration attend by `agon_packed` until the block ends."""
    before = config._attn_implementation
    config._attn_implementation = NAME
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
        out = _by_blocks(query, key, value, agon_packing, scale, sliding_window, softcap)
    return out, None


def _by_blocks(
    query: Tensor, key: Tensor, value: Tensor, packing: Packing, scale: float, window: int | None, softcap: float | None
) -> Tensor:
    # Token-major from here on: a block's tokens are then one stretch of memory.
    q, k, v = (part.squeeze(0).transpose(0, 1) for part in (query, key, value))
    if softcap is None and packing.max_length <= _PLAIN_LENGTH:
        return _PlainAttention.apply(q, k, v, packing, scale, window).unsqueeze(0)
    sizes = [block.stop - block.start for block in packing.blocks]
    outputs: list[Tensor] = []
    for block, *parts in zip(packing.blocks, q.split(sizes), k.split(sizes), v.split(sizes), strict=True):
        padded = [part.index_select(0, block.gather).view(block.rows, block.length, *part.shape[1:]) for part in parts]
        rows_q, rows_k, rows_v = (part.transpose(1, 2) for part in padded)
        out = _attend(rows_q, rows_k, rows_v, scale, window, softcap)
        outputs.append(out.transpose(1, 2).flatten(0, 1).index_select(0, block.scatter))
    return torch.cat(outputs).unsqueeze(0)


def _attend(q: Tensor, k: Tensor, v: Tensor, scale: float, window: int | None, softcap: float | None) -> Tensor:
    """Attend within padded rows of `[rows, heads, length, width]` by torch's own differentiation."""
    is_windowed = window is not None and window < q.shape[2]
    if softcap is None and not is_windowed:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=q.shape[1] != k.shape[1])
    mask = _causal_mask(q.shape[2], window, q)
    if softcap is None:
        return F.scaled_dot_product_attention(q, k, v, mask, scale=scale, enable_gqa=q.shape[1] != k.shape[1])
    k, v = (part.repeat_interleave(q.shape[1] // part.shape[1], dim=1) for part in (k, v))
    scores = torch.tanh(torch.matmul(q, k.transpose(-1, -2)) * (scale / softcap)) * softcap + mask
    return torch.matmul(torch.softmax(scores, dim=-1, dtype=torch.float32).to(v.dtype), v)


def _causal_mask(length: int, window: int | None, like: Tensor) -> Float[Tensor, "length length"]:
    mask = torch.full((length, length), float("-inf"), dtype=like.dtype, device=like.device).triu(1)
    if window is not None:
        # A window of w lets a token see itself and the w - 1 before it.
        mask += torch.full_like(mask, float("-inf")).tril(-window)
    return mask


class _PlainAttention(torch.autograd.Function):
    """softmax(q·kᵀ·scale + mask)·v, block by block, with kept probabilities; padding exists only in here.

    Heads that share a key head stand one below the other as its queries.
    """

    @staticmethod
    def forward(
        ctx: Any,
        q: Float[Tensor, "tokens heads width"],
        k: Float[Tensor, "tokens kv_heads width"],
        v: Float[Tensor, "tokens kv_heads value_width"],
        packing: Packing,
        scale: float,
        window: int | None,
    ) -> Float[Tensor, "tokens heads value_width"]:
        ctx.packing, ctx.scale, ctx.heads, ctx.kv_heads = packing, scale, q.shape[1], k.shape[1]
        out = torch.empty(*q.shape[:2], v.shape[2], dtype=v.dtype, device=v.device)
        saved: list[Tensor] = []
        for block in packing.blocks:
            span = slice(block.start, block.stop)
            rows_q, rows_k, rows_v = (_to_rows(part[span], block, k.shape[1]) for part in (q, k, v))
            mask = _causal_mask(block.length, window, q).repeat(q.shape[1] // k.shape[1], 1)
            weights = torch.softmax(torch.baddbmm(mask, rows_q, rows_k.transpose(1, 2), alpha=scale), dim=-1)
            _from_rows(torch.bmm(weights, rows_v), block, out[span])
            saved += [rows_q, rows_k, rows_v, weights]
        ctx.save_for_backward(*saved)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        saved, grad = ctx.saved_tensors, grads[0]
        tokens = grad.shape[0]
        grad_q = grad.new_empty(tokens, ctx.heads, saved[0].shape[2])
        grad_k = grad.new_empty(tokens, ctx.kv_heads, saved[1].shape[2])
        grad_v = grad.new_empty(tokens, ctx.kv_heads, saved[2].shape[2])
        for number, block in enumerate(ctx.packing.blocks):
            span = slice(block.start, block.stop)
            q, k, v, weights = saved[4 * number : 4 * number + 4]
            rows = _to_rows(grad[span], block, ctx.kv_heads, clear_padding=True)
            inner = _softmax_backward(torch.bmm(rows, v.transpose(1, 2)), weights, -1, weights.dtype)
            _from_rows(torch.bmm(inner, k).mul_(ctx.scale), block, grad_q[span])
            _from_rows(torch.bmm(inner.transpose(1, 2), q).mul_(ctx.scale), block, grad_k[span])
            _from_rows(torch.bmm(weights.transpose(1, 2), rows), block, grad_v[span])
        return grad_q, grad_k, grad_v, None, None, None


def _to_rows(
    x: Float[Tensor, "tokens heads width"], block: Block, kv_heads: int, *, clear_padding: bool = False
) -> Float[Tensor, "kv_rows queries width"]:
    heads, width = x.shape[1:]
    if len(block.is_padding):
        x = x.index_select(0, block.gather)
        if clear_padding:
            x[block.is_padding] = 0.0
    grouped = x.reshape(block.rows, block.length, kv_heads, heads // kv_heads, width).permute(0, 2, 3, 1, 4)
    return grouped.reshape(block.rows * kv_heads, -1, width)


def _from_rows(
    x: Float[Tensor, "kv_rows queries width"], block: Block, out: Float[Tensor, "tokens heads width"]
) -> None:
    _, heads, width = out.shape
    tokens = x.view(block.rows, heads, block.length, width).transpose(1, 2).reshape(-1, heads, width)
    if len(block.is_padding):
        torch.index_select(tokens, 0, block.scatter, out=out)
    else:
        out.copy_(tokens)


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
    shares_heads = "enable_gqa" in known  # since torch 2.12

    def run(query: Tensor, key: Tensor, value: Tensor, packing: Packing, scale: float, window: int | None) -> Tensor:
        q, k, v = (part[0].transpose(0, 1).contiguous() for part in (query, key, value))
        groups = q.shape[1] // k.shape[1]
        options: dict[str, Any] = {"enable_gqa": groups > 1} if shares_heads else {}
        if groups > 1 and not shares_heads:
            k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
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


_softmax_backward = torch._softmax_backward_data  # pyright: ignore[reportPrivateUsage] - what autograd itself calls
_varlen = _find_varlen()
AttentionInterface.register(NAME, packed_attention)
