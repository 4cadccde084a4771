"""One micro-batch through the model: from token ids to logprobs of the completion tokens."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from agon.errors import ModelError
from agon.learner.attention import NAME, packed_attention_of, plan_packing
from agon.learner.logprobs import Head, TokenLogprobs, output_head, token_logprobs
from agon.learner.packing import MicroBatch
from agon.model.base import Base
from agon.model.families import carries_state, logits_agree


@contextmanager
def attention_for(model: Any, *, is_packed: bool, name: str = NAME) -> Generator[None]:
    """Attend as micro-batches need it until the block ends, which must hold their backward passes too.

    `name` is the attention of packed ones.

    A checkpointed layer runs again in the backward pass, and must attend then as it did before.
    """
    with packed_attention_of(model.config, name) if is_packed else nullcontext():
        yield


def score(
    model: Any, batch: MicroBatch, head: Head, *, temperature: float, chunk: int, is_compiled: bool = False
) -> TokenLogprobs:
    """Return logprob and entropy of each completion token, with the weights as they are mounted, inside `attention_for`."""
    hidden = _hidden(model, batch).index_select(0, batch.predict_index)
    return token_logprobs(hidden, batch.target_ids, head, temperature=temperature, chunk=chunk, is_compiled=is_compiled)


def can_pack(base: Base) -> bool:
    """Find out whether a base may be packed; where not, warn once and let it be padded by length.

    Raises:
        ModelError: the output layer computes something the learner does not know.
    """
    config = base.model.config.get_text_config()
    head = output_head(base.model)
    if not logits_agree(base, lambda rows: _logits_alone(base, head, rows)):
        raise ModelError(f"the output layer of {config.model_type} scales logits in a way the learner does not know")
    if carries_state(config):
        reason = "carries a state along the sequence"
    elif not logits_agree(base, lambda rows: _logits_packed(base, head, rows)):
        reason = "gives other logits when packed"
    else:
        return True
    warnings.warn(f"{config.model_type} {reason}: its sequences are padded by length, which is slower", stacklevel=2)
    return False


def _hidden(model: Any, batch: MicroBatch) -> Float[Tensor, "positions width"]:
    decoder = model.get_decoder()
    if batch.packing is None:
        # Padding stands at the end, where no real token looks: causal attention needs no mask for it.
        return decoder(input_ids=batch.input_ids, use_cache=False).last_hidden_state.flatten(0, 1)
    out = decoder(
        input_ids=batch.input_ids, position_ids=batch.position_ids, use_cache=False, agon_packing=batch.packing
    )
    return out.last_hidden_state[0]


def _logits_packed(base: Base, head: Head, rows: Sequence[Sequence[int]]) -> list[Tensor]:
    lengths = [len(row) for row in rows]
    ids = torch.tensor([[token for row in rows for token in row]], device=base.device)
    positions = torch.tensor([[place for row in rows for place in range(len(row))]], device=base.device)
    with packed_attention_of(base.model.config):
        hidden = base.model.get_decoder()(
            input_ids=ids, position_ids=positions, use_cache=False, agon_packing=plan_packing(lengths, base.device)
        ).last_hidden_state[0]
    return list(head.logits(hidden).split(lengths))


def _logits_alone(base: Base, head: Head, rows: Sequence[Sequence[int]]) -> list[Tensor]:
    decoder = base.model.get_decoder()
    hidden = [decoder(input_ids=torch.tensor([row], device=base.device), use_cache=False) for row in rows]
    return [head.logits(out.last_hidden_state[0]) for out in hidden]
