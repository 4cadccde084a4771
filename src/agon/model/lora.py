"""How a linear layer computes with an adapter: four ways to mount it, none of which ever writes to the base weight.

PEFT keeps the adapters and their file format. Its forward casts and adds at every layer, so what runs here is leaner and
the same function: W0 + s·B·A is built once from the pristine W0 and put in W0's place (`merged`), or, where a merged copy
would cost too much memory or precision, x·W0 + s·(x·A)·B is computed with the factors cast once (`split`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from jaxtyping import Float
from peft.tuners.lora import Linear as PeftLinear
from torch import Tensor, nn
from torch.nn import functional as F

from agon.errors import ModelError


@dataclass(frozen=True, slots=True)
class Site:
    """One adapted linear layer: its path in the bare model, PEFT's wrapper, and the base's own layer and weight."""

    path: str
    layer: Any
    base_layer: nn.Linear
    weight: nn.Parameter

    def down(self, name: str) -> nn.Parameter:
        """The A-matrix (rank x inputs) of adapter `name`."""
        return self.layer.lora_A[name].weight

    def up(self, name: str) -> nn.Parameter:
        """The B-matrix (outputs x rank) of adapter `name`."""
        return self.layer.lora_B[name].weight

    def scale(self, name: str) -> float:
        """Alpha / rank of adapter `name`."""
        return self.layer.scaling[name]


def find_sites(model: nn.Module) -> list[Site]:
    """List the adapted layers of a model that PEFT has wrapped.

    Raises:
        ModelError: nothing was adapted, or something that is not a plain linear layer.
    """
    sites: list[Site] = []
    for path, module in model.named_modules():
        if not hasattr(module, "lora_A"):
            continue
        base_layer = module.base_layer
        if not (isinstance(module, PeftLinear) and isinstance(base_layer, nn.Linear)):
            raise ModelError(
                f"adapter.targets takes in {path}, a {type(base_layer).__name__}: only linear layers can be adapted"
            )
        weight = cast(nn.Parameter, base_layer.weight)
        sites.append(Site(path=path, layer=module, base_layer=base_layer, weight=weight))
    if not sites:
        raise ModelError("adapter.targets matches no layer of the base: name its linear layers, or use all-linear")
    return sites


@torch.no_grad()
def merged_weights(sites: Sequence[Site], name: str) -> list[Tensor]:
    """Build W0 + s·B·A for every site, summed in float32 and rounded once."""
    merged: list[Tensor] = []
    for site in sites:
        weight = torch.addmm(site.weight.float(), site.up(name), site.down(name), alpha=site.scale(name))
        merged.append(weight.to(site.weight.dtype))
    return merged


def mount_bare(sites: Sequence[Site]) -> None:
    """Let every layer compute with the base weight alone."""
    for site in sites:
        _place(site, site.weight)
        site.layer.forward = site.base_layer.forward


def mount_merged(sites: Sequence[Site], weights: Sequence[Tensor]) -> None:
    """Put frozen merged weights where the base weights stand; the base weights themselves are not touched."""
    for site, weight in zip(sites, weights, strict=True):
        _place(site, nn.Parameter(weight, requires_grad=False))
        site.layer.forward = site.base_layer.forward


def mount_split(sites: Sequence[Site], name: str) -> None:
    """Compute base and adapter apart, the factors cast to the base's number format; gradients reach the factors."""
    for site in sites:
        _place(site, site.weight)
        factors = (site.down(name), site.up(name))
        half = tuple(factor.detach().to(site.weight.dtype) for factor in factors)
        bias = site.base_layer.bias
        site.layer.forward = partial(_split_linear, *factors, *half, site.scale(name), site.weight, bias)


def mount_trainable(sites: Sequence[Site], name: str, weights: Sequence[Tensor]) -> None:
    """Compute with merged weights, and send the gradient through them into the factors."""
    for site, weight in zip(sites, weights, strict=True):
        _place(site, site.weight)
        bias = site.base_layer.bias
        site.layer.forward = partial(_merged_linear, site.down(name), site.up(name), site.scale(name), weight, bias)


def mount_peft(sites: Sequence[Site], name: str) -> None:
    """Let PEFT's own forward compute, dropout included."""
    for site in sites:
        _place(site, site.weight)
        site.layer.__dict__.pop("forward", None)
        site.layer.set_adapter([name])
        site.layer.lora_dropout.train()


def _place(site: Site, weight: nn.Parameter) -> None:
    """Put a weight where the layer looks for it. Plain assignment would go through a slow registration each time."""
    site.base_layer._parameters["weight"] = weight  # pyright: ignore[reportPrivateUsage]


def _merged_linear(down: Tensor, up: Tensor, scale: float, weight: Tensor, bias: Tensor | None, x: Tensor) -> Tensor:
    return _MergedLinear.apply(x, down, up, scale, weight, bias)


def _split_linear(
    down: Tensor,
    up: Tensor,
    half_down: Tensor,
    half_up: Tensor,
    scale: float,
    weight: Tensor,
    bias: Tensor | None,
    x: Tensor,
) -> Tensor:
    return _SplitLinear.apply(x, down, up, half_down, half_up, scale, weight, bias)


class _MergedLinear(torch.autograd.Function):
    """y = x·(W0 + s·B·A)ᵀ, with gradients for x, A and B. The product s·B·A is already in `weight`."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "*batch inputs"],
        down: Float[Tensor, "rank inputs"],
        up: Float[Tensor, "outputs rank"],
        scale: float,
        weight: Float[Tensor, "outputs inputs"],
        bias: Float[Tensor, " outputs"] | None,
    ) -> Tensor:
        ctx.save_for_backward(x, down, up, weight)
        ctx.scale = scale
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, down, up, weight = ctx.saved_tensors
        grad = grads[0]
        grad_x = grad @ weight if ctx.needs_input_grad[0] else None
        rows, grad_rows = x.reshape(-1, x.shape[-1]), grad.reshape(-1, grad.shape[-1])
        (outputs, inputs), rank = weight.shape, down.shape[0]
        # Both are exact. One large product beats four thin ones while rank is not small against the layer's width.
        if outputs * inputs <= 3 * rank * (outputs + inputs):
            grad_weight = grad_rows.T @ rows
            return grad_x, ctx.scale * (up.T @ grad_weight), ctx.scale * (grad_weight @ down.T), None, None, None
        grad_up = ctx.scale * (grad_rows.T @ (rows @ down.T))
        grad_down = ctx.scale * ((grad_rows @ up).T @ rows)
        return grad_x, grad_down, grad_up, None, None, None


class _SplitLinear(torch.autograd.Function):
    """y = x·W0ᵀ + s·(x·Aᵀ)·Bᵀ in the base's number format; the gradients of A and B are float32 like A and B.

    Only x is kept for the backward pass: x·Aᵀ is computed again, which is cheaper than keeping it.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "*batch inputs"],
        down: Float[Tensor, "rank inputs"],
        up: Float[Tensor, "outputs rank"],
        half_down: Float[Tensor, "rank inputs"],
        half_up: Float[Tensor, "outputs rank"],
        scale: float,
        weight: Float[Tensor, "outputs inputs"],
        bias: Float[Tensor, " outputs"] | None,
    ) -> Tensor:
        ctx.save_for_backward(x, half_down, half_up, weight)
        ctx.scale = scale
        rows = x.reshape(-1, x.shape[-1])
        out = torch.addmm(F.linear(rows, weight, bias), rows @ half_down.T, half_up.T, alpha=scale)
        return out.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, down, up, weight = ctx.saved_tensors
        grad = grads[0]
        rows, grad_rows = x.reshape(-1, x.shape[-1]), grad.reshape(-1, grad.shape[-1])
        grad_inner = ctx.scale * (grad_rows @ up)
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = torch.addmm(grad_rows @ weight, grad_inner, down).view_as(x)
        grad_up = ctx.scale * (grad_rows.T @ (rows @ down.T)).float()
        grad_down = (grad_inner.T @ rows).float()
        return grad_x, grad_down, grad_up, None, None, None, None, None
