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
        return _capped(F.linear(hidden, self.weight, self.bias), self.softcap)


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
    is_compiled: bool = False,
) -> TokenLogprobs:
    """Score each target under softmax(logits / temperature), `chunk` tokens at a time.

    The head is frozen, so a logprob's gradient is one vector a token. It is computed beside the logits and kept in their
    place: nothing is computed twice, and the backward pass is one multiplication. `is_compiled` reads the logits three times
    and writes nothing of their size but that gradient.
    """
    logprobs, entropies = _ChunkedLogprobs.apply(hidden, targets, head, temperature, chunk, is_compiled)
    return TokenLogprobs(logprobs, entropies)


class _ChunkedLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, targets: Tensor, head: Head, temperature: float, chunk: int, is_compiled: bool
    ) -> tuple[Tensor, Tensor]:
        num_tokens = len(targets)
        logprobs = torch.empty(num_tokens, dtype=torch.float32, device=hidden.device)
        entropies = torch.empty_like(logprobs)
        is_sloped = hidden.requires_grad or ctx.needs_input_grad[0]
        slopes = torch.empty_like(hidden) if is_sloped else None
        terms = _terms_compiled if is_compiled else _terms
        for start in range(0, num_tokens, chunk):
            part = slice(start, start + chunk)
            logits = F.linear(hidden[part], head.weight, head.bias)
            logprobs[part], entropies[part], slope = terms(logits, targets[part], head.softcap, temperature, is_sloped)
            if slopes is not None:
                slopes[part] = slope.to(hidden.dtype) @ head.weight
        ctx.mark_non_differentiable(entropies)
        if slopes is not None:
            ctx.save_for_backward(slopes)
        return logprobs, entropies

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (slopes,) = ctx.saved_tensors
        return slopes * grads[0].unsqueeze(1).to(slopes.dtype), None, None, None, None, None


def _terms(
    logits: Tensor, targets: Tensor, softcap: float | None, temperature: float, is_sloped: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Logprob and entropy of each target, and the logprob's gradient by the uncapped logits (empty where not asked for)."""
    logits = _capped(logits, softcap)
    all_logprobs = torch.log_softmax(logits / temperature, dim=-1)
    index = targets.unsqueeze(1)
    logprobs = all_logprobs.gather(1, index).squeeze(1)
    probs = all_logprobs.exp()
    # clamp: a probability of zero has logprob -inf, and 0 times -inf is NaN.
    entropies = -(probs * all_logprobs.clamp_min(-1e30)).sum(dim=-1)
    if not is_sloped:
        return logprobs, entropies, logits.new_empty(0)
    slope = probs.neg_().scatter_add_(1, index, torch.ones_like(index, dtype=probs.dtype))
    if softcap is not None:
        slope *= 1.0 - (logits / softcap).square()
    return logprobs, entropies, slope / temperature


def _lean_terms(
    logits: Tensor, targets: Tensor, softcap: float | None, temperature: float, is_sloped: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """`_terms` without a tensor of the logits' size in float32: the slope comes in the logits' own format."""
    dtype = logits.dtype
    logits = _capped(logits, softcap)
    scaled = logits / temperature
    index = targets.unsqueeze(1)
    all_logprobs = scaled - scaled.logsumexp(-1, keepdim=True)
    logprobs = all_logprobs.gather(1, index).squeeze(1)
    probs = all_logprobs.exp()
    entropies = -(probs * all_logprobs.clamp_min(-1e30)).sum(dim=-1)
    if not is_sloped:
        return logprobs, entropies, logits.new_empty(0)
    # Compared, not scattered: a scatter would write the slopes once more.
    is_target = torch.arange(logits.shape[1], device=logits.device) == index
    slope = is_target.float() - probs
    if softcap is not None:
        slope = slope * (1.0 - (logits / softcap).square())
    return logprobs, entropies, (slope / temperature).to(dtype)


def _terms_compiled(
    logits: Tensor, targets: Tensor, softcap: float | None, temperature: float, is_sloped: bool
) -> tuple[Tensor, Tensor, Tensor]:
    if len(targets) == 1:
        return _lean_terms(logits, targets, softcap, temperature, is_sloped)  # one is no symbol
    # The number of tokens is symbolic, that of the vocabulary is not: rows of known size are read in wide pieces.
    for tensor in (logits, targets):
        torch._dynamo.maybe_mark_dynamic(tensor, 0)  # pyright: ignore[reportPrivateUsage] - documented, in spite of its name
    return _compiled_lean_terms(logits, targets, softcap, temperature, is_sloped)


_compiled_lean_terms = torch.compile(_lean_terms, fullgraph=True)


def _capped(logits: Tensor, softcap: float | None) -> Tensor:
    logits = logits.float()
    return logits if softcap is None else torch.tanh(logits / softcap) * softcap
