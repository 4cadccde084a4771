"""One token for each row, from logits and one uniform number for each row."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

# Weights are whole numbers up to 2**52: their sums are exact in any order, so that the choice doesn't depend on the device or
# on the batch, and a token of probability zero has an empty interval that no rounding can hit.
_UNIT = float(2**52)


class Sampled(NamedTuple):
    """Token ids and the logprob of each under the distribution it was drawn from."""

    tokens: Int[Tensor, " rollouts"]
    logprobs: Float[Tensor, " rollouts"]


class Mix(NamedTuple):
    """Which kinds of sampling a batch holds, so that what nobody asked for is not computed."""

    has_temperature: bool
    has_greedy: bool
    has_nucleus: bool


def sample_tokens(
    logits: Float[Tensor, "rollouts vocab"],
    uniforms: Float[Tensor, " rollouts"],
    temperatures: Float[Tensor, " rollouts"],
    top_ps: Float[Tensor, " rollouts"],
    mix: Mix,
) -> Sampled:
    """Draw one token a row by inverting the cumulative distribution at the row's uniform number.

    The distribution is softmax(logits / T) in float32, cut to its nucleus and renormalised where top_p is below 1. T = 0 takes
    the most likely token; the distribution then is that one token, so its logprob is 0.
    """
    logits = logits.float()
    scaled = logits / torch.where(temperatures == 0, 1.0, temperatures).unsqueeze(1) if mix.has_temperature else logits
    probs = torch.softmax(scaled, dim=-1)
    if mix.has_nucleus:
        probs = _cut_to_nucleus(probs, top_ps)
    tokens = _invert(probs, uniforms)
    logprobs = torch.log(probs.gather(1, tokens.unsqueeze(1)).squeeze(1))
    if mix.has_greedy:
        top_logits, top_tokens = logits.max(dim=-1)
        tokens = torch.where(temperatures == 0, top_tokens, tokens)
        # Zero, but not where the logits are not finite: that must come to light.
        logprobs = torch.where(temperatures == 0, top_logits - top_logits, logprobs)
    return Sampled(tokens, logprobs)


def _invert(probs: Float[Tensor, "rollouts vocab"], uniforms: Float[Tensor, " rollouts"]) -> Int[Tensor, " rollouts"]:
    edges = (probs * _UNIT).to(torch.int64).cumsum(dim=-1)
    totals = edges[:, -1]
    targets = (uniforms * totals.to(uniforms.dtype)).to(torch.int64)
    targets = torch.minimum(targets, totals - 1)
    tokens = torch.searchsorted(edges, targets.unsqueeze(1), right=True).squeeze(1)
    # Only a row of NaN can point past the end; its logprob is NaN as well, and the caller stops there.
    return tokens.clamp_(max=probs.shape[1] - 1)


def _cut_to_nucleus(
    probs: Float[Tensor, "rollouts vocab"], top_ps: Float[Tensor, " rollouts"]
) -> Float[Tensor, "rollouts vocab"]:
    """Keep the fewest most likely tokens whose mass reaches top_p, and renormalise. Of equals the lower id comes first."""
    # A top_p that is zero in float32, or taken for zero by a device without subnormal numbers, would keep no token at all.
    top_ps = top_ps.clamp(min=torch.finfo(top_ps.dtype).tiny)
    ids = _candidates(probs, top_ps)
    descending, order = probs.gather(1, ids).sort(dim=-1, descending=True, stable=True)
    mass_before = descending.cumsum(dim=-1, dtype=torch.float64 if probs.device.type != "mps" else None) - descending
    kept = torch.where(mass_before < top_ps.unsqueeze(1), descending, 0.0)
    kept = kept / kept.sum(dim=-1, keepdim=True)
    nucleus = torch.zeros_like(probs).scatter_(1, ids.gather(1, order), kept)
    return torch.where(top_ps.unsqueeze(1) < 1, nucleus, probs)


def _candidates(
    probs: Float[Tensor, "rollouts vocab"], top_ps: Float[Tensor, " rollouts"]
) -> Int[Tensor, "rollouts some"]:
    """Name, in ascending order, enough ids of each row to hold its nucleus.

    All tokens less likely than (1 - top_p) / vocab weigh less than 1 - top_p together, so the rest holds the nucleus. On a CPU
    that saves sorting a large vocabulary; on a GPU the sort is cheap and counting would wait for the device.
    """
    vocab = probs.shape[1]
    if probs.device.type == "cpu":
        floor = torch.where(top_ps < 1, (1 - top_ps) / vocab, 1.0).to(probs.dtype).unsqueeze(1)
        most = max(1, int((probs >= floor).sum(dim=-1).max()))
        return probs.topk(most, dim=-1, sorted=False).indices.sort(dim=-1).values
    return torch.arange(vocab, device=probs.device).expand_as(probs)
