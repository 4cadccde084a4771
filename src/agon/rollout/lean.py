"""Lean decoder layers for one new token a row, in place of transformers' own while decoding.

A decoding step of a small model is mostly overhead: transformers spends some sixty operations on a layer that needs half as
many. Layers are found by their structure, and the start-up probe compares the model with its plain forward pass before any is
used.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from agon.rollout.attention import decode_attention

Replacement = tuple[Any, Callable[..., Any]]

_LAYER_PARTS = ("self_attn", "mlp", "input_layernorm", "post_attention_layernorm")
_ATTENTION_PARTS = ("q_proj", "k_proj", "v_proj", "o_proj")
_ATTENTION_NORMS = ("q_norm", "k_norm")
_MLP_PARTS = ("gate_proj", "up_proj", "down_proj", "act_fn")


@contextmanager
def replaced(replacements: Sequence[Replacement]) -> Generator[None]:
    """Let these modules compute by their lean versions until the block ends."""
    for module, forward in replacements:
        module.forward = forward
    try:
        yield
    finally:
        for module, _ in replacements:
            del module.forward


def find_layers(model: nn.Module) -> list[Replacement]:
    """Find the decoder layers built like Llama's or Qwen3's, each with its lean version."""
    rotation = _Rotation()
    return [(module, _lean_layer(module, rotation)) for module in model.modules() if _is_like_llama(module)]


def _is_like_llama(module: Any) -> bool:
    if not (_has_parts(module, _LAYER_PARTS) and _has_parts(module.mlp, _MLP_PARTS)):
        return False
    attention = module.self_attn
    is_known = _has_parts(attention, _ATTENTION_PARTS) or _has_parts(attention, _ATTENTION_PARTS + _ATTENTION_NORMS)
    if not is_known or not all(hasattr(attention, name) for name in ("head_dim", "scaling", "layer_idx")):
        return False
    # Qwen3.5's query projection also makes a gate, and so is wider.
    return getattr(attention.q_proj, "out_features", None) == getattr(attention.o_proj, "in_features", 0)


def _has_parts(module: nn.Module, names: Sequence[str]) -> bool:
    return {name for name, _ in module.named_children()} == set(names)


class _Rotation:
    """Turn queries and keys by their positions. The sine with its signs is made once a step, not once a layer."""

    def __init__(self) -> None:
        self._sin: Tensor | None = None
        self._signed: Tensor | None = None

    def __call__(
        self,
        heads: Float[Tensor, "rows heads 1 width"],
        cos: Float[Tensor, "_ 1 width"],
        sin: Float[Tensor, "_ 1 width"],
    ) -> Float[Tensor, "rows heads 1 width"]:
        half = heads.shape[-1] // 2
        if sin is not self._sin:
            self._sin, self._signed = sin, torch.cat((-sin[..., :half], sin[..., half:]), dim=-1).unsqueeze(1)
        assert self._signed is not None, "set with the sine it belongs to"
        # Two products and a sum, as transformers rounds them: a fused one would part engine and learner in bfloat16.
        return heads * cos.unsqueeze(1) + heads.roll(half, -1) * self._signed


def _lean_norm(norm: Any) -> Any:
    """Return torch's own operation for a norm in float32; in lower precision the two round at different places."""
    eps = getattr(norm, "variance_epsilon", None)
    weight = getattr(norm, "weight", None)
    if eps is None or weight is None or weight.dtype != torch.float32:
        return norm
    return partial(functional.rms_norm, normalized_shape=tuple(weight.shape), weight=weight, eps=eps)


def _lean_layer(layer: Any, rotation: _Rotation) -> Callable[..., Any]:
    plain, attention, mlp = layer.forward, layer.self_attn, layer.mlp
    # Looked up once: modules find their parts by a slow search.
    norm_before, norm_after = _lean_norm(layer.input_layernorm), _lean_norm(layer.post_attention_layernorm)
    to_query, to_key, to_value, to_output = (getattr(attention, name) for name in _ATTENTION_PARTS)
    query_norm, key_norm = (_lean_norm(getattr(attention, name, None)) for name in _ATTENTION_NORMS)
    gate, up, down, activation = (getattr(mlp, name) for name in _MLP_PARTS)
    width, scaling, index = attention.head_dim, attention.scaling, attention.layer_idx

    def forward(hidden_states: Tensor, **inputs: Any) -> Any:
        rows, num_tokens, _ = hidden_states.shape
        if num_tokens != 1:
            return plain(hidden_states, **inputs)
        cache: Any = inputs.get("cache", inputs.get("past_key_values"))
        normed = norm_before(hidden_states)
        query = to_query(normed).view(rows, -1, 1, width)
        key = to_key(normed).view(rows, -1, 1, width)
        value = to_value(normed).view(rows, -1, 1, width)
        if query_norm is not None and key_norm is not None:
            query, key = query_norm(query), key_norm(key)
        num_heads = query.shape[1]
        both = rotation(torch.cat((query, key), dim=1), *inputs["position_embeddings"])
        keys, values = cache.update(both[:, num_heads:], value, index)
        mixed, _ = decode_attention(
            attention, both[:, :num_heads], keys, values, inputs.get("attention_mask"), scaling=scaling
        )
        hidden_states = hidden_states + to_output(mixed.view(rows, 1, -1))
        normed = norm_after(hidden_states)
        return hidden_states + down(activation(gate(normed)) * up(normed))

    return forward
