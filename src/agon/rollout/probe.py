"""Try the fast decoder on two short prompts before trusting it with a model it has not met."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from agon.rollout.cache import can_prune
from agon.rollout.decoding import ModelCall, SlotDecoder
from agon.rollout.lean import Replacement, replaced

_LENGTHS = (3, 6)
_STEPS = 3
# (row, tokens after its prompt) of each logit vector compared.
_CHECKED = ((0, 0), (1, 0), (0, 1), (1, 1), (1, 2), (1, 3))
_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-3}
_LOW_PRECISION_TOLERANCE = 0.2


def find_fault(call: ModelCall, lean: Sequence[Replacement] = ()) -> str | None:
    """Say why rows of this model can't be decoded by slots with these lean layers, or None if they can.

    Rows of different length, one of which leaves midway, are compared with the model's plain forward pass. Families that read
    positions, masks or caches in a way of their own are found here instead of giving wrong samples.
    """
    if not can_prune(call.config):
        return "its layers keep a state that rows can't be taken out of"
    vocab = call.config.vocab_size
    texts = [[(37 * row + 11 * i + 5) % vocab for i in range(length + _STEPS)] for row, length in enumerate(_LENGTHS)]
    wanted = [_plain(call, texts[row][: _LENGTHS[row] + extra]) for row, extra in _CHECKED]
    try:
        with replaced(lean):
            found = _decoded(call, texts)
    except Exception as error:  # whatever a model's own code raises: the plain decoder is still there
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"
    # The median: a router of experts may flip on one token in low precision.
    gap = float(torch.stack([_gap(*pair) for pair in zip(found, wanted, strict=True)]).median())
    if gap <= _TOLERANCE.get(next(call.model.parameters()).dtype, _LOW_PRECISION_TOLERANCE):
        return None
    return f"its logits differ from a plain forward pass by {gap:.2g} of their range"


def _decoded(call: ModelCall, texts: list[list[int]]) -> list[Float[Tensor, " vocab"]]:
    """Decode as `_CHECKED` says: both rows for one step, then the longer alone."""
    decoder = SlotDecoder(call, room=len(texts), longest_prompt=max(_LENGTHS))
    found = list(decoder.admit([text[:length] for text, length in zip(texts, _LENGTHS, strict=True)]))
    rows = [0, 1]
    for step in range(_STEPS):
        tokens = torch.tensor([texts[row][_LENGTHS[row] + step] for row in rows], device=call.device)
        positions = torch.tensor([_LENGTHS[row] + step for row in rows], device=call.device)
        found += list(decoder.step(tokens, positions))
        if step == 0:
            decoder.select([1])
            rows = [1]
    return found


def _plain(call: ModelCall, text: list[int]) -> Float[Tensor, " vocab"]:
    return call.model(input_ids=torch.tensor([text], device=call.device), use_cache=False).logits[0, -1].float()


def _gap(found: Float[Tensor, " vocab"], wanted: Float[Tensor, " vocab"]) -> Float[Tensor, ""]:
    return (found.float() - wanted).abs().max() / (wanted - wanted.mean()).abs().max().clamp_min(1e-6)
