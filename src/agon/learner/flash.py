"""FlashAttention 4 over packed sequences, as one operation that torch's compiler takes into its graphs.

The kernels are the ones that vLLM carries, compiled for the card at their first use (some ten seconds). torch can take them
up itself (`activate_flash_attention_impl`), but expects other return values than this version of them has.
"""

# No postponed annotations: torch reads an operation's types from them.
import importlib
import importlib.util
from functools import cache
from typing import Any

import torch
from torch import Tensor

_MODULE = "vllm.vllm_flash_attn.cute.interface"
_LARGEST_HEAD = 128


@cache
def find_kernels() -> Any | None:
    """Return the module with the kernels, where vLLM is installed and the card is a Hopper."""
    if not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9:
        return None
    if importlib.util.find_spec("vllm") is None:
        return None
    try:
        return importlib.import_module(_MODULE)
    except (ImportError, RuntimeError):  # its compiler is not installed, or not for this version of CUDA
        return None


def fits(query: Tensor, value: Tensor) -> bool:
    """Tell whether the kernels take heads of this kind."""
    width = query.shape[-1]
    is_half = query.dtype in (torch.bfloat16, torch.float16)
    return is_half and width == value.shape[-1] and width % 8 == 0 and width <= _LARGEST_HEAD


def attend(
    query: Tensor, key: Tensor, value: Tensor, offsets: Tensor, *, longest: int, scale: float, window: int | None
) -> Tensor:
    """Attend causally within each sequence, to the last `window` places where that is given.

    Shapes: tokens x heads x width, contiguous; a key head may serve several query heads. `offsets` (int32) are where sequences
    start, and the total; `longest` is the length of the longest.
    """
    return torch.ops.agon.flash(query, key, value, offsets, longest, scale, -1 if window is None else window - 1)[0]


@torch.library.custom_op("agon::flash", mutates_args=())
def _flash(
    query: Tensor, key: Tensor, value: Tensor, offsets: Tensor, longest: int, scale: float, left: int
) -> tuple[Tensor, Tensor]:
    kernels = find_kernels()
    assert kernels is not None, "asked for where it was not found"
    out, normalizers, *_ = kernels._flash_attn_fwd(
        query, key, value, return_lse=True, **_arguments(offsets, longest, scale, left)
    )
    return out, normalizers


@_flash.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, offsets: Tensor, longest: int, scale: float, left: int) -> Any:
    return torch.empty_like(query), query.new_empty(query.shape[1], query.shape[0], dtype=torch.float32)


@torch.library.custom_op("agon::flash_backward", mutates_args=())
def _flash_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    normalizers: Tensor,
    offsets: Tensor,
    longest: int,
    scale: float,
    left: int,
) -> tuple[Tensor, Tensor, Tensor]:
    kernels = find_kernels()
    assert kernels is not None, "asked for where it was not found"
    arguments = _arguments(offsets, longest, scale, left)
    found = kernels._flash_attn_bwd(query, key, value, out, grad.contiguous(), normalizers, **arguments)
    return found[0], found[1], found[2]


@_flash_backward.register_fake
def _(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    normalizers: Tensor,
    offsets: Tensor,
    longest: int,
    scale: float,
    left: int,
) -> Any:
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    query, key, value, offsets, ctx.longest, ctx.scale, ctx.left = inputs
    ctx.save_for_backward(query, key, value, *output, offsets)
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, grad: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 7
    grads = torch.ops.agon.flash_backward(grad, *ctx.saved_tensors, ctx.longest, ctx.scale, ctx.left)
    return (*grads, None, None, None, None)


_flash.register_autograd(_differentiate, setup_context=_remember)


def _arguments(offsets: Tensor, longest: int, scale: float, left: int) -> dict[str, Any]:
    window = {} if left < 0 else {"window_size_left": left, "window_size_right": 0}
    return {
        "cu_seqlens_q": offsets,
        "cu_seqlens_k": offsets,
        "max_seqlen_q": longest,
        "max_seqlen_k": longest,
        "softmax_scale": scale,
        "causal": left < 0,
        **window,
    }
