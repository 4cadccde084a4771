"""Attention of one new token a row over cached keys and values, for models that take transformers' attention interface."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional
from transformers import AttentionInterface

NAME = "agon_decode"


def decode_attention(
    module: Any,
    query: Float[Tensor, "rows heads 1 width"],
    key: Float[Tensor, "rows kv_heads slots width"],
    value: Float[Tensor, "rows kv_heads slots value_width"],
    attention_mask: Float[Tensor, "rows 1 1 slots_of_the_longest_layer"] | None,
    scaling: float | None = None,
    softcap: float | None = None,
    **_unused: Any,
) -> tuple[Float[Tensor, "rows 1 heads value_width"], None]:
    """Attend from each row's one query to the slots its layer kept.

    A sliding-window layer keeps the last slots only, so the mask is cut to the length of the keys. For one query a row two
    plain matrix products are several times as fast on a CPU as the fused kernel; elsewhere the fused kernel is used, since it
    accumulates in float32.
    """
    rows, heads, _, width = query.shape
    kv_heads, slots = key.shape[1], key.shape[2]
    mask = attention_mask
    if mask is not None and mask.shape[-1] != slots:
        mask = mask[..., -slots:].clone()  # a copy, since the fused kernel reads at aligned addresses
    scale = width**-0.5 if scaling is None else scaling
    grouped = query.view(rows, kv_heads, heads // kv_heads, width)
    if query.device.type == "cpu" or softcap is not None:
        scores = torch.matmul(grouped * scale, key.transpose(2, 3))
        if softcap is not None:
            scores = torch.tanh(scores / softcap) * softcap
        if mask is not None:
            scores += mask
        weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(value.dtype)
        output = torch.matmul(weights, value)
    else:
        # The heads that share keys stand where queries stand: each is masked alike.
        output = functional.scaled_dot_product_attention(grouped, key, value, attn_mask=mask, scale=scale)
    return output.reshape(rows, 1, heads, -1), None


AttentionInterface.register(NAME, decode_attention)


@contextmanager
def decoding(config: Any) -> Generator[None]:
    """Use `decode_attention` in the model of this configuration until the block ends."""
    before = config._attn_implementation
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = before
