"""Try the fast decoder on two short prompts before trusting it with a model it has not met."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from agon.rollout.cache import can_prune
from agon.rollout.decoding import ModelCall, SlotDecoder

_LENGTHS = (3, 6)
_STEPS = 3
_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-3}
_LOW_PRECISION_TOLERANCE = 0.2


def find_fault(call: ModelCall) -> str | None:
    """Say why rows of this model can't be decoded by slots, or None if they can.

    Rows of different length, one of which leaves midway, are compared with the model's plain forward pass. Families that read
    positions, masks or caches in a way of their own are found here instead of giving wrong samples.
    """
    if not can_prune(call.config):
        return "its layers keep a state that rows can't be taken out of"
    vocab = call.config.vocab_size
    texts = [[(37 * row + 11 * i + 5) % vocab for i in range(length + _STEPS)] for row, length in enumerate(_LENGTHS)]
    try:
        gaps = _gaps(call, texts)
    except Exception as error:  # whatever a model's own code raises: the plain decoder is still there
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"
    gap = float(gaps.median())
    if gap <= _TOLERANCE.get(next(call.model.parameters()).dtype, _LOW_PRECISION_TOLERANCE):
        return None
    return f"its logits differ from a plain forward pass by {gap:.2g} of their range"


def _gaps(call: ModelCall, texts: list[list[int]]) -> Float[Tensor, " steps"]:
    decoder = SlotDecoder(call, max_rows=len(texts), longest_prompt=max(_LENGTHS))
    found = decoder.admit([text[:length] for text, length in zip(texts, _LENGTHS, strict=True)])
    gaps = [
        _gap(found[row], call, text[:length]) for row, (text, length) in enumerate(zip(texts, _LENGTHS, strict=True))
    ]
    alive = list(range(len(texts)))
    for step in range(_STEPS):
        tokens = torch.tensor([texts[row][_LENGTHS[row] + step] for row in alive], device=call.device)
        positions = torch.tensor([_LENGTHS[row] + step for row in alive], device=call.device)
        found = decoder.step(tokens, positions)
        gaps += [_gap(found[i], call, texts[row][: _LENGTHS[row] + step + 1]) for i, row in enumerate(alive)]
        if step == 0:
            decoder.select([1])
            alive = [1]
    return torch.stack(gaps)


def _gap(found: Float[Tensor, " vocab"], call: ModelCall, text: list[int]) -> Float[Tensor, ""]:
    wanted = call.model(input_ids=torch.tensor([text], device=call.device), use_cache=False).logits[0, -1].float()
    return (found.float() - wanted).abs().max() / (wanted - wanted.mean()).abs().max().clamp_min(1e-6)
