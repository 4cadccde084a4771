"""AdamW for one adapter: its learning rate by step, and its state under the adapter's own tensor names."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from agon.config import TrainSettings
from agon.errors import ModelError

_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


def learning_rate(settings: TrainSettings, *, step: float | int, total_steps: int) -> float:
    """Return the rate of a step counted from 0: up over the warm-up, then down to zero after the last step, or constant.

    No step has rate zero: step s of w warm-up steps has (s + 1)/w of the peak, step s of n after it (n - s)/(n - w). A step may
    stand between two of n: where some use up more problems than others, what counts is the share that is used up.
    """
    warmup = math.ceil(settings.warmup_share * total_steps)
    if step < warmup:
        return settings.learning_rate * min(step + 1, warmup) / warmup
    if settings.schedule == "constant":
        return settings.learning_rate
    return settings.learning_rate * max(total_steps - step, 0) / (total_steps - warmup)


def make_optimizer(parameters: Sequence[nn.Parameter], settings: TrainSettings) -> AdamW:
    """Make an AdamW over one adapter's matrices alone."""
    # Not fused: that one writes without telling torch, and `AdapterPair` watches torch's count of writes.
    return AdamW(parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay, foreach=True)


def optimizer_state(optimizer: AdamW, names: Sequence[str]) -> dict[str, Tensor]:
    """Return moments and step counts as `name.exp_avg`, `name.exp_avg_sq`, `name.step` (no copies); empty before the first step."""
    parameters = optimizer.param_groups[0]["params"]
    return {
        f"{name}.{moment}": optimizer.state[parameter][moment]
        for name, parameter in zip(names, parameters, strict=True)
        if parameter in optimizer.state
        for moment in _MOMENTS
    }


def load_optimizer_state(optimizer: AdamW, names: Sequence[str], tensors: Mapping[str, Tensor]) -> None:
    """Restore what `optimizer_state` returned, bit for bit.

    Raises:
        ModelError: names the tensor that is missing, unexpected or of another shape.
    """
    left = dict(tensors)
    optimizer.state.clear()
    for name, parameter in zip(names, optimizer.param_groups[0]["params"], strict=True):
        if not any(f"{name}.{moment}" in left for moment in _MOMENTS):
            continue  # it had not been stepped
        state: dict[str, Tensor] = {}
        for moment in _MOMENTS:
            tensor = left.pop(f"{name}.{moment}", None)
            if tensor is None or (moment != "step" and tensor.shape != parameter.shape):
                raise ModelError(f"the optimiser state does not fit: {name}.{moment} is missing or has another shape")
            state[moment] = tensor.to(device=parameter.device, dtype=torch.float32, copy=True)
        optimizer.state[parameter] = state
    if left:
        raise ModelError(f"the optimiser state holds {len(left)} tensors of no layer (first: {sorted(left)[0]})")
