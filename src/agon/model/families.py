"""Which families may be packed: sequences laid end to end, told apart by attention alone.

A layer that carries a state along the sequence (Qwen3.5's linear attention, Mamba) would carry it from one sequence into
the next, silently. Such families are known by their configuration; what the configuration does not tell is caught by a check
at start-up: packed logits must equal those of each sequence alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from agon.model.base import Base

# Layer types whose only look at other tokens is attention.
_ATTENTION_TYPES = frozenset({"full_attention", "sliding_attention", "chunked_attention"})
_STATEFUL_KEYS = (
    "ssm_cfg",
    "mamba_d_state",
    "state_size",
    "linear_num_key_heads",
    "attention_window_size",
    "conv_L_cache",
)
_CHECK_LENGTHS = (7, 12, 4)
_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 3e-2}


def carries_state(config: Any) -> bool:
    """Tell by its configuration whether a model carries a state along the sequence."""
    kinds = set(getattr(config, "layer_types", None) or ())
    return bool(kinds - _ATTENTION_TYPES) or any(getattr(config, key, None) for key in _STATEFUL_KEYS)


@torch.no_grad()
def logits_agree(base: Base, packed_logits: Callable[[Sequence[Sequence[int]]], list[Tensor]]) -> bool:
    """Compare packed logits with those of each sequence alone, on made-up tokens and the weights as mounted.

    The tolerance is on the relative error of each sequence: 1e-4 in float32, 3e-2 in bfloat16.
    """
    vocabulary = base.model.get_input_embeddings().weight.shape[0]
    rows = [[(31 * row + 7 * place + 3) % vocabulary for place in range(n)] for row, n in enumerate(_CHECK_LENGTHS)]
    packed = packed_logits(rows)
    for row, logits in zip(rows, packed, strict=True):
        alone = base.model(torch.tensor([row], device=base.device), use_cache=False).logits[0].float()
        error = (logits.float() - alone).norm() / alone.norm()
        if not error <= _TOLERANCE[base.dtype]:  # a NaN must fail as well
            return False
    return True
