"""Decoder layers run as they are, compiled, or recomputed in the backward pass.

A layer's `forward` is replaced while a block lasts, so that sampling and everything else outside it sees the plain model.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

# Families with several kinds of layer need a graph of each, with and without gradients; torch's own limit is 8. Floats are
# constants: as symbols, each would be a tensor on the CPU, with C++ compiled for it.
_COMPILER = {"recompile_limit": 64, "specialize_float": True}
_BACKEND = "inductor"

Forward = Callable[..., Any]


def decoder_layers(model: Any) -> list[Any]:
    """List a model's decoder layers."""
    return [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]


def compile_layers(layers: Sequence[Any]) -> list[Forward]:
    """Return each layer's forward as torch compiles it, at its first call; equal layers share one graph.

    Sizes are symbolic, so that micro-batches of any size run in the same graph. A layer that does not fit in one raises.
    """
    return [torch.compile(layer.forward, dynamic=True, fullgraph=True, backend=_BACKEND) for layer in layers]


@contextmanager
def running_layers(
    model: Any, layers: Sequence[Any], forwards: Sequence[Forward] | None, *, is_recomputed: bool
) -> Generator[None]:
    """Run a model's decoder layers by the given forwards (None: their own), each recomputed in the backward pass where asked for.

    The block must hold the backward passes too. Compiled, embeddings are made to take a gradient: the first layer then is like
    all others, and needs no graph of its own.
    """
    hooks = [model.get_input_embeddings().register_forward_hook(_take_gradient)] if forwards is not None else []
    chosen = [layer.forward for layer in layers] if forwards is None else list(forwards)
    if is_recomputed:
        # Reentrant checkpoints cut the graph where a layer's input needs no gradient, and the first layer's does not.
        chosen = [partial(checkpoint, forward, use_reentrant=False) for forward in chosen]
    with torch._dynamo.config.patch(_COMPILER):  # pyright: ignore[reportPrivateUsage]
        for layer, forward in zip(layers, chosen, strict=True):
            layer.forward = forward
        try:
            yield
        finally:
            for layer in layers:
                del layer.forward
            for hook in hooks:
                hook.remove()


def _take_gradient(module: Any, inputs: Any, embeddings: Tensor) -> Tensor:
    return embeddings.requires_grad_() if torch.is_grad_enabled() else embeddings
