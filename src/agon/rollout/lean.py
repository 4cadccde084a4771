"""Lean versions of a model's norms and decoder layers for one new token a row.

A decoding step of a small model is mostly overhead: transformers spends sixty operations and fifteen module calls on a layer that
needs twenty-five and seven. What is replaced is found by structure and by what it computes, and the start-up probe compares
the whole model with its plain forward pass before any of it is used.
"""

from __future__ import annotations

import inspect
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

_LAYER_PARTS = {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"}
_ATTENTION_PARTS = {"q_proj", "k_proj", "v_proj", "o_proj"}
_ATTENTION_NORMS = {"q_norm", "k_norm"}
_MLP_PARTS = {"gate_proj", "up_proj", "down_proj", "act_fn"}


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


def find_norms(model: nn.Module) -> list[Replacement]:
    """Find the norms that torch's own operation reproduces, each with that operation.

    Families that scale by 1 + weight are found, too, and ones that do something else are left alone. In float32 only: in lower
    precision the two round at different places, and engine and learner should not.
    """
    found: list[Replacement] = []
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm") and len(inspect.signature(module.forward).parameters) == 1:
            operation = _same_operation(module)
            if operation is not None:
                found.append((module, operation))
    return found


def find_layers(model: nn.Module) -> list[Replacement]:
    """Find the decoder layers built like Llama's or Qwen3's, each with its lean version."""
    rotation = _Rotation()
    return [(module, _lean_layer(module, rotation)) for module in model.modules() if _is_like_llama(module)]


def _same_operation(module: Any) -> Callable[[Tensor], Tensor] | None:
    weight: Any = getattr(module, "weight", None)
    eps: Any = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    if not isinstance(weight, Tensor) or weight.dtype != torch.float32 or not isinstance(eps, float):
        return None
    probe = torch.linspace(-1.0, 2.0, weight.numel(), device=weight.device)
    with torch.no_grad():
        wanted = module(probe)
        for scale in (weight.detach(), 1.0 + weight.detach()):
            operation = partial(functional.rms_norm, normalized_shape=tuple(weight.shape), weight=scale, eps=eps)
            if torch.allclose(operation(probe), wanted, rtol=1e-5, atol=1e-6):
                return operation
    return None


def _is_like_llama(module: Any) -> bool:
    if _parts(module) != _LAYER_PARTS or _parts(module.mlp) != _MLP_PARTS:
        return False
    attention = module.self_attn
    return _parts(attention) in (_ATTENTION_PARTS, _ATTENTION_PARTS | _ATTENTION_NORMS) and all(
        hasattr(attention, name) for name in ("head_dim", "scaling", "layer_idx")
    )


def _parts(module: nn.Module) -> set[str]:
    return {name for name, _ in module.named_children()}


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
        return torch.addcmul(heads * cos.unsqueeze(1), heads.roll(half, -1), self._signed)


def _lean_layer(layer: Any, rotation: _Rotation) -> Callable[..., Any]:
    plain = layer.forward
    attention, mlp = layer.self_attn, layer.mlp
    q_norm, k_norm = getattr(attention, "q_norm", None), getattr(attention, "k_norm", None)
    width, window = attention.head_dim, getattr(attention, "sliding_window", None)

    def forward(hidden_states: Tensor, **inputs: Any) -> Any:
        rows, num_tokens, _ = hidden_states.shape
        if num_tokens != 1:
            return plain(hidden_states, **inputs)
        cache: Any = inputs.get("cache", inputs.get("past_key_values"))
        cos, sin = inputs["position_embeddings"]
        normed = layer.input_layernorm(hidden_states)
        query = attention.q_proj(normed).view(rows, -1, 1, width)
        key = attention.k_proj(normed).view(rows, -1, 1, width)
        value = attention.v_proj(normed).view(rows, -1, 1, width)
        if q_norm is not None and k_norm is not None:
            query, key = q_norm(query), k_norm(key)
        both = rotation(torch.cat((query, key), dim=1), cos, sin)
        query, key = both[:, : query.shape[1]], both[:, query.shape[1] :]
        key, value = cache.update(key, value, attention.layer_idx)
        mask = inputs.get("attention_mask")
        mixed, _ = decode_attention(
            attention, query, key, value, mask, scaling=attention.scaling, sliding_window=window
        )
        hidden_states = hidden_states + attention.o_proj(mixed.view(rows, 1, -1))
        normed = layer.post_attention_layernorm(hidden_states)
        return hidden_states + mlp.down_proj(mlp.act_fn(mlp.gate_proj(normed)) * mlp.up_proj(normed))

    return forward
