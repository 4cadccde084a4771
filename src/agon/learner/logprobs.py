"""Log-probabilities of sampled tokens without ever holding the full logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from agon.errors import ModelError


@dataclass(frozen=True, slots=True)
class Head:
    """The frozen output layer: logits = softcap · tanh((h·Wᵀ + b) / softcap), or h·Wᵀ + b without a softcap (Gemma has one)."""

    weight: Float[Tensor, "vocab width"]
    bias: Float[Tensor, " vocab"] | None
    softcap: float | None

    def logits(self, hidden: Float[Tensor, "tokens width"]) -> Float[Tensor, "tokens vocab"]:
        """Compute logits in float32."""
        logits = F.linear(hidden, self.weight, self.bias).float()
        return logits if self.softcap is None else torch.tanh(logits / self.softcap) * self.softcap


class TokenLogprobs(NamedTuple):
    """Per token: logprob of the sampled token (differentiable) and entropy of its distribution (not). Units: nats."""

    logprobs: Float[Tensor, " tokens"]
    entropies: Float[Tensor, " tokens"]


def output_head(model: Any) -> Head:
    """Find a model's output layer.

    Raises:
        ModelError: it has none, or it is adapted: the learner takes it as frozen.
    """
    layer = model.get_output_embeddings()
    if hasattr(layer, "lora_A"):
        raise ModelError("adapter.targets takes in the output layer: leave it out, the learner keeps it frozen")
    if not isinstance(layer, nn.Linear):
        raise ModelError(
            f"the base's output layer is a {type(layer).__name__}, not a linear layer: it cannot be trained on"
        )
    softcap = getattr(model.config.get_text_config(), "final_logit_softcapping", None)
    return Head(weight=layer.weight, bias=layer.bias, softcap=softcap)


def token_logprobs(
    hidden: Float[Tensor, "tokens width"],
    targets: Int[Tensor, " tokens"],
    head: Head,
    *,
    temperature: float,
    chunk: int,
) -> TokenLogprobs:
    """Score each target under softmax(logits / temperature), `chunk` tokens at a time.

    The head is frozen, so a logprob's gradient is one vector a token. It is computed beside the logits and kept in their
    place: nothing is computed twice, and the backward pass is one multiplication.
    """
    logprobs, entropies = _ChunkedLogprobs.apply(hidden, targets, head, temperature, chunk)
    return TokenLogprobs(logprobs, entropies)


class _ChunkedLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, targets: Tensor, head: Head, temperature: float, chunk: int
    ) -> tuple[Tensor, Tensor]:
        num_tokens = len(targets)
        logprobs = torch.empty(num_tokens, dtype=torch.float32, device=hidden.device)
        entropies = torch.empty_like(logprobs)
        slopes = torch.empty_like(hidden) if hidden.requires_grad or ctx.needs_input_grad[0] else None
        for start in range(0, num_tokens, chunk):
            part = slice(start, start + chunk)
            logits = head.logits(hidden[part])
            all_logprobs = torch.log_softmax(logits / temperature, dim=-1)
            index = targets[part].unsqueeze(1)
            logprobs[part] = all_logprobs.gather(1, index).squeeze(1)
            probs = all_logprobs.exp()
            # clamp: a probability of zero has logprob -inf, and 0 times -inf is NaN.
            entropies[part] = -(probs * all_logprobs.clamp_min(-1e30)).sum(dim=-1)
            if slopes is not None:
                slope = probs.neg_().scatter_add_(1, index, torch.ones_like(index, dtype=probs.dtype))
                if head.softcap is not None:
                    slope *= 1.0 - (logits / head.softcap).square()
                slopes[part] = (slope / temperature).to(hidden.dtype) @ head.weight
        ctx.mark_non_differentiable(entropies)
        if slopes is not None:
            ctx.save_for_backward(slopes)
        return logprobs, entropies

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (slopes,) = ctx.saved_tensors
        return slopes * grads[0].unsqueeze(1).to(slopes.dtype), None, None, None, None
