"""Packed attention by gathering sequences of like length into small padded blocks: for devices without a kernel of its own.

Padding stands at the end of a block's rows, where causal attention of real tokens never looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

# Below this length scores are kept and plain products beat torch's fused CPU kernel threefold; above, memory decides.
PLAIN_LENGTH = 256
# Rows of a block are at least this full, and a block is small enough to stay in a core's cache (or, on an accelerator, large
# enough to fill it).
_FULLNESS = 0.85
_BLOCK_TOKENS = {"cpu": 512, "other": 16384}


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


def plan_blocks(lengths: Sequence[int], device: torch.device) -> tuple[Block, ...]:
    """Cut sequences that follow one another into blocks; sorted by length they waste the least."""
    blocks: list[Block] = []
    first, start = 0, 0
    most_tokens = _BLOCK_TOKENS["cpu" if device.type == "cpu" else "other"]
    while first < len(lengths):
        last = _block_end(lengths, first, most_tokens)
        blocks.append(_make_block(lengths[first:last], start, device))
        start += sum(lengths[first:last])
        first = last
    return tuple(blocks)


def _block_end(lengths: Sequence[int], first: int, most_tokens: int) -> int:
    longest, total = 0, 0
    for last in range(first, len(lengths)):
        longest, total = max(longest, lengths[last]), total + lengths[last]
        slots = longest * (last + 1 - first)
        if last > first and (total < _FULLNESS * slots or slots > most_tokens):
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


def attend_by_blocks(
    query: Float[Tensor, "1 heads tokens width"],
    key: Float[Tensor, "1 kv_heads tokens width"],
    value: Float[Tensor, "1 kv_heads tokens value_width"],
    blocks: Sequence[Block],
    *,
    scale: float,
    window: int | None,
    softcap: float | None,
) -> Float[Tensor, "1 tokens heads value_width"]:
    """Attend causally within each sequence, scores softcapped and a window seen where given."""
    # A batch's blocks would be compiled for that batch alone.
    assert not torch.compiler.is_compiling(), "attention in blocks cannot be compiled"
    # Token-major from here on: a block's tokens are then one stretch of memory.
    q, k, v = (part.squeeze(0).transpose(0, 1) for part in (query, key, value))
    if softcap is None and max(block.length for block in blocks) <= PLAIN_LENGTH:
        return _PlainAttention.apply(q, k, v, blocks, scale, window).unsqueeze(0)
    sizes = [block.stop - block.start for block in blocks]
    outputs: list[Tensor] = []
    for block, *parts in zip(blocks, q.split(sizes), k.split(sizes), v.split(sizes), strict=True):
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
        blocks: Sequence[Block],
        scale: float,
        window: int | None,
    ) -> Float[Tensor, "tokens heads value_width"]:
        ctx.blocks, ctx.scale, ctx.heads, ctx.kv_heads = blocks, scale, q.shape[1], k.shape[1]
        out = torch.empty(*q.shape[:2], v.shape[2], dtype=v.dtype, device=v.device)
        saved: list[Tensor] = []
        for block in blocks:
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
        for number, block in enumerate(ctx.blocks):
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


_softmax_backward = torch._softmax_backward_data  # pyright: ignore[reportPrivateUsage] - what autograd itself calls
