"""Policy-gradient losses. Each takes the counts of the whole optimiser step, so that micro-batches add up to the batch.

All share rho, the policy's probability of a token over what it was when the step began (1 in the first and, on-policy, only
update), and `weights`, the truncated importance of learner over engine, which no gradient passes through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True, slots=True)
class StepCounts:
    """What a step's sums are divided by. Tokens are completion tokens; masked samples are in none of them.

    Samples with zero advantage are in all of them, though they are never computed: they are part of the batch's mean.
    `max_tokens` is the cap on a completion, the constant of `dr_grpo`.
    """

    num_tokens: int
    num_sequences: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class ScoredTokens:
    """Completion tokens of a micro-batch, flat; `rows` is the sequence a token belongs to, counted within the micro-batch.

    Units: nats (logprobs); advantages have the unit their normaliser left them.
    """

    logprobs: Float[Tensor, " tokens"]
    old_logprobs: Float[Tensor, " tokens"]
    weights: Float[Tensor, " tokens"]
    advantages: Float[Tensor, " tokens"]
    rows: Int[Tensor, " tokens"]
    lengths: Int[Tensor, " rows"]


class LossTerms(NamedTuple):
    """A micro-batch's share of the step's loss, and which tokens were clipped (whose gain no longer depends on the policy)."""

    loss: Float[Tensor, ""]
    is_clipped: Bool[Tensor, " tokens"]


LossFunction = Callable[[ScoredTokens, StepCounts, float, float], LossTerms]


class Loss(NamedTuple):
    """A loss with the clip range it was published with."""

    function: LossFunction
    clip_low: float
    clip_high: float


def dapo(tokens: ScoredTokens, counts: StepCounts, clip_low: float, clip_high: float) -> LossTerms:
    """Average the clipped gain over all tokens of the step.

    Paper: DAPO, arXiv:2503.14476, without its resampling of dead groups.
    """
    gain, is_clipped = _clipped_gain(_token_ratio(tokens), tokens, clip_low, clip_high)
    return LossTerms(-gain.sum() / counts.num_tokens, is_clipped)


def grpo(tokens: ScoredTokens, counts: StepCounts, clip_low: float, clip_high: float) -> LossTerms:
    """Average the clipped gain over each sequence's tokens, then over sequences.

    Paper: DeepSeekMath, arXiv:2402.03300, without the KL term.
    """
    gain, is_clipped = _clipped_gain(_token_ratio(tokens), tokens, clip_low, clip_high)
    return LossTerms(-_mean_per_sequence(gain, tokens).sum() / counts.num_sequences, is_clipped)


def dr_grpo(tokens: ScoredTokens, counts: StepCounts, clip_low: float, clip_high: float) -> LossTerms:
    """Sum the clipped gain and divide by a constant, so that length carries no weight of its own.

    Paper: Dr. GRPO, arXiv:2503.20783. Its advantage is `group_mean`.
    """
    gain, is_clipped = _clipped_gain(_token_ratio(tokens), tokens, clip_low, clip_high)
    return LossTerms(-gain.sum() / (counts.num_sequences * counts.max_tokens), is_clipped)


def gspo(tokens: ScoredTokens, counts: StepCounts, clip_low: float, clip_high: float) -> LossTerms:
    """Clip one ratio a sequence, the geometric mean of its tokens' ratios, and average over sequences.

    Paper: GSPO, arXiv:2507.18071. Equal to `grpo` while rho is 1.
    """
    log_ratio = _mean_per_sequence(tokens.logprobs - tokens.old_logprobs, tokens)
    gain, is_clipped = _clipped_gain(torch.exp(log_ratio)[tokens.rows], tokens, clip_low, clip_high)
    return LossTerms(-_mean_per_sequence(gain, tokens).sum() / counts.num_sequences, is_clipped)


def cispo(tokens: ScoredTokens, counts: StepCounts, clip_low: float, clip_high: float) -> LossTerms:
    """Cap the ratio itself, outside the gradient, so that no token loses its gradient; average over the step's tokens.

    `clip_high` is the cap on rho, `clip_low` its floor.
    Paper: MiniMax-M1, arXiv:2506.13585, with ScaleRL's cap (arXiv:2510.13786) and no floor.
    """
    ratio = _token_ratio(tokens).detach()
    capped = ratio.clamp(clip_low, clip_high)
    gain = capped * tokens.weights * tokens.advantages * tokens.logprobs
    return LossTerms(-gain.sum() / counts.num_tokens, capped != ratio)


LOSSES: Mapping[str, Loss] = MappingProxyType(
    {
        "dapo": Loss(dapo, 0.2, 0.28),
        "grpo": Loss(grpo, 0.2, 0.2),
        "dr_grpo": Loss(dr_grpo, 0.2, 0.2),
        "gspo": Loss(gspo, 3e-4, 4e-4),
        "cispo": Loss(cispo, 0.0, 5.0),
    }
)
"""Losses by the name a recipe uses."""


@torch.no_grad()
def importance_weights(
    old_logprobs: Float[Tensor, " tokens"], behavior_logprobs: Float[Tensor, " tokens"], cap: float | None
) -> Float[Tensor, " tokens"]:
    """Weigh each token by learner over engine probability, at most `cap`; all 1 without a cap.

    Token by token, not by sequence: a product over thousands of tokens would silence long completions.
    """
    if cap is None:
        return torch.ones_like(old_logprobs)
    return torch.exp(old_logprobs - behavior_logprobs).clamp_max(cap)


def _token_ratio(tokens: ScoredTokens) -> Float[Tensor, " tokens"]:
    return torch.exp(tokens.logprobs - tokens.old_logprobs)


def _clipped_gain(
    ratio: Float[Tensor, " tokens"], tokens: ScoredTokens, clip_low: float, clip_high: float
) -> tuple[Float[Tensor, " tokens"], Bool[Tensor, " tokens"]]:
    plain = ratio * tokens.advantages
    clipped = ratio.clamp(1.0 - clip_low, 1.0 + clip_high) * tokens.advantages
    return torch.minimum(plain, clipped) * tokens.weights, clipped < plain


def _mean_per_sequence(values: Float[Tensor, " tokens"], tokens: ScoredTokens) -> Float[Tensor, " rows"]:
    sums = torch.zeros(len(tokens.lengths), dtype=values.dtype, device=values.device)
    return sums.index_add(0, tokens.rows, values) / tokens.lengths
