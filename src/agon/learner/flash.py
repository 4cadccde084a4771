"""FlashAttention 4 over packed sequences, as one operation that torch's compiler takes into its graphs.

The kernels are the ones that vLLM carries, compiled for the card at their first use (some ten seconds). torch can take them
up itself (`activate_flash_attention_impl`), but expects other return values than this version of them has.
"""

# No postponed annotations: torch reads an operation's types from them.
import importlib
import importlib.util
import warnings
from functools import cache
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from agon.learner.blocks import attend_by_blocks, plan_blocks
from agon.model.base import Base

_MODULE = "vllm.vllm_flash_attn.cute.interface"
_HEAD_WIDTHS = range(64, 129, 8)
# Sequences that end within a block of the kernels (128), beyond one, and at once; and a window shorter than the longest.
_TRIAL_LENGTHS, _TRIAL_WINDOW = (200, 70, 1), 50
# Half precision leaves some thousandths.
_LARGEST_ERROR = 0.03


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
    return width == value.shape[-1] and _takes(width, query.dtype)


def why_not(base: Base) -> str:
    """Say why a base's attention cannot run by the kernels; blank if it can."""
    if find_kernels() is None:
        return "its kernels are not here: they need a Hopper GPU and vLLM with nvidia-cutlass-dsl[cu13]"
    if base.device.type != "cuda":
        return f"the base is on the device {base.device.type}"
    for _, _, width in _heads(base):
        if not _takes(width, base.dtype):
            return f"its kernels take no heads of width {width} in {str(base.dtype).removeprefix('torch.')}"
    return ""


def try_out(base: Base) -> str:
    """Run the kernels on heads like the base's, forward and backward, beside `attend_by_blocks`.

    Returns what was wrong, blank if values and gradients agree. They are compiled in it, as the first update would have to.
    """
    has_windows = any(getattr(layer, "sliding_window", None) for layer in _layer_configs(base))
    windows = [None, _TRIAL_WINDOW] if has_windows else [None]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # their compiler's own, about an argument that is not given
            errors = [_trial_error(base, heads, window) for heads in _heads(base) for window in windows]
    except Exception as error:  # their compiler has no one kind of its own
        return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:200]}"
    if all(error < _LARGEST_ERROR for error in errors):
        return ""
    return f"values or gradients differ by {max(errors):.2g} of their size from those computed otherwise"


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


def _takes(width: int, dtype: torch.dtype) -> bool:
    return dtype in (torch.bfloat16, torch.float16) and width in _HEAD_WIDTHS


def _layer_configs(base: Base) -> list[Any]:
    config = base.model.config.get_text_config()
    return [config.per_layer_config[number] for number in range(config.num_hidden_layers)]


def _heads(base: Base) -> list[tuple[int, int, int]]:
    """Query heads, key heads and their width, of each kind of layer."""
    found: dict[tuple[int, int, int], None] = {}
    for config in _layer_configs(base):
        heads = config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // heads
        found[heads, getattr(config, "num_key_value_heads", None) or heads, width] = None
    return list(found)


def _trial_error(base: Base, kind: tuple[int, int, int], window: int | None) -> float:
    heads, key_heads, width = kind
    generator = torch.Generator().manual_seed(0)
    shapes = [(sum(_TRIAL_LENGTHS), count, width) for count in (heads, key_heads, key_heads, heads)]
    *own, weights = (torch.randn(shape, generator=generator).to(base.device, base.dtype) for shape in shapes)
    other = [part.float().transpose(0, 1)[None].requires_grad_() for part in own]
    query, key, value = (part.requires_grad_() for part in own)
    offsets = torch.tensor([0, *accumulate(_TRIAL_LENGTHS)], dtype=torch.int32, device=base.device)
    scale = width**-0.5
    out = attend(query, key, value, offsets, longest=max(_TRIAL_LENGTHS), scale=scale, window=window)
    blocks = plan_blocks(_TRIAL_LENGTHS, base.device)
    expected = attend_by_blocks(other[0], other[1], other[2], blocks, scale=scale, window=window, softcap=None)[0]
    mine = [out.detach(), *torch.autograd.grad(out, own, weights)]
    theirs = [
        expected.detach(),
        *(grad[0].transpose(0, 1) for grad in torch.autograd.grad(expected, other, weights.float())),
    ]
    pairs = zip(mine, theirs, strict=True)
    return max(float((found.float() - known).norm() / known.norm()) for found, known in pairs)


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
