"""How a linear layer computes with an adapter: the ways to mount it, none of which ever writes to the base weight.

PEFT keeps the adapters and their file format. Its forward casts and adds at every layer, so what runs here is leaner and
the same function: W0 + s·B·A is built once from the pristine W0 and put in W0's place (`merged`), or, where a merged copy
would cost too much memory or precision, x·W0 + s·(x·A)·B is computed with the factors cast once (`split`), or cast inside
a compiled layer (`traced`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from jaxtyping import Float
from peft.tuners.lora import Linear as PeftLinear
from torch import Tensor, nn
from torch.nn import functional as F

from agon.errors import ModelError

# Above this a merged copy of the adapted weights costs more memory than it saves time.
_MERGE_LIMIT_BYTES = 2 << 30
CACHE_LIMIT_BYTES = 256 << 20
"""Up to this merged copies of both adapters are kept from one switch to the next."""


class TracedLinear(nn.Module):
    """y = x·W0ᵀ + s·(x·Aᵀ)·Bᵀ in the base's number format, by plain operations; `hold` says of which adapter."""

    down: nn.Parameter
    up: nn.Parameter

    def __init__(self, base_layer: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = base_layer.weight, base_layer.bias
        self.scale = 1.0

    def hold(self, down: nn.Parameter, up: nn.Parameter, scale: float) -> None:
        """Take another adapter's factors."""
        self.down, self.up, self.scale = down, up, scale

    def forward(self, x: Tensor) -> Tensor:
        """Compute y."""
        # The casts are differentiated too: gradients reach the float32 factors, added up in float32 over micro-batches.
        inner = F.linear(x, self.down.to(x.dtype))
        return F.linear(x, self.weight, self.bias) + F.linear(inner, (self.scale * self.up).to(x.dtype))


@dataclass(frozen=True, slots=True)
class Site:
    """One adapted linear layer: its path in the bare model, what it is a part of, PEFT's wrapper, the base's own layer and weight.

    `stand_in` takes the wrapper's place in compiled layers.
    """

    path: str
    parent: nn.Module
    layer: Any
    base_layer: nn.Linear
    weight: nn.Parameter
    stand_in: TracedLinear

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
        parent = model.get_submodule(path.rpartition(".")[0])
        stand_in = TracedLinear(base_layer)
        sites.append(Site(path, parent, module, base_layer, weight, stand_in))
    if not sites:
        raise ModelError("adapter.targets matches no layer of the base: name its linear layers, or use all-linear")
    return sites


def merged_bytes(num_bytes: int, *, is_float32: bool) -> int:
    """Return what merged copies of adapted weights of `num_bytes` take at most: of both adapters where they are kept, of one, or none."""
    if not is_float32 or num_bytes > _MERGE_LIMIT_BYTES:
        return 0
    return 2 * num_bytes if 2 * num_bytes <= CACHE_LIMIT_BYTES else num_bytes


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


def mount_traced(sites: Sequence[Site], name: str, factors: Sequence[nn.Parameter]) -> None:
    """Compute as `mount_split` does, in plain operations that torch's compiler can fuse with what stands around them.

    `factors` are the adapter's, down and up of each site in turn.

    A small module stands in for PEFT's wrapper. The compiler tells modules apart by what they hold, so that all layers, and
    both adapters, share one compiled graph. A function put in a layer's place would be told apart by its identity.
    """
    for site, down, up in zip(sites, factors[::2], factors[1::2], strict=True):
        _place(site, site.weight)
        site.stand_in.hold(down, up, site.scale(name))
        _attach(site, site.stand_in)


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


def recall_mount(sites: Sequence[Site]) -> Callable[[], None]:
    """Return what mounts the layers again as they are mounted at this moment (not traced ones), by nothing but assignments."""
    places: list[tuple[dict[str, Any], str, Any]] = []
    for site in sites:
        layers: dict[str, Any] = site.parent._modules  # pyright: ignore[reportPrivateUsage]
        weights: dict[str, Any] = site.base_layer._parameters  # pyright: ignore[reportPrivateUsage]
        name = site.path.rpartition(".")[2]
        places += [(layers, name, layers[name]), (weights, "weight", weights["weight"])]
        places.append((vars(site.layer), "forward", site.layer.forward))

    def mount() -> None:
        for table, key, value in places:
            table[key] = value

    return mount


def _attach(site: Site, module: nn.Module) -> None:
    site.parent._modules[site.path.rpartition(".")[2]] = module  # pyright: ignore[reportPrivateUsage]


def _place(site: Site, weight: nn.Parameter) -> None:
    """Put PEFT's wrapper into the model and a weight where the layer looks for it.

    Plain assignment would go through a slow registration each time.
    """
    _attach(site, site.layer)
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
