"""What an update tells: sums kept on the device while micro-batches run, read once at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from agon.learner.losses import ScoredTokens, StepCounts

_NUM_BINS = 32


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """What one update did. Means are over computed tokens: completion tokens of samples with an advantage other than zero.

    `loss`, `grad_norm` (before clipping) are means over the optimiser steps taken. `num_tokens` and `num_sequences` are what the
    loss was divided by, `num_tokens_learned` what was computed. `importance_by_length` is the mean capped weight by completion
    length, keyed by the bin's upper end ("64" holds 33 to 64 tokens): it must be flat. A mean over nothing is None.

    Units: nats (entropy, logprob gaps).
    """

    loss: float
    grad_norm: float
    learning_rate: float
    num_tokens: int
    num_sequences: int
    num_tokens_learned: int
    num_steps: int
    num_skipped_steps: int
    entropy: float | None
    logprob_gap_mean: float | None
    logprob_gap_max: float | None
    importance_mean: float | None
    importance_by_length: dict[str, float]
    clip_share: float | None


@dataclass(slots=True)
class Tally:
    """Sums of one update. With `parts`, one for each of several streams, tokens are summed up by stream as well."""

    learning_rate: float
    num_tokens: int = 0
    num_sequences: int = 0
    num_computed: int = 0
    num_skipped_steps: int = 0
    losses: list[float] = field(default_factory=list[float])
    grad_norms: list[float] = field(default_factory=list[float])
    parts: list[Tally] = field(default_factory=list["Tally"])
    _sums: Tensor | None = None
    _gap_max: Tensor | None = None
    _weights: Tensor | None = None
    _tokens: Tensor | None = None

    def count(self, counts: StepCounts) -> None:
        """Add what a step's loss is divided by."""
        self.num_tokens += counts.num_tokens
        self.num_sequences += counts.num_sequences

    def add_step(self, *, loss: float, grad_norm: float) -> None:
        """Add a step that was taken."""
        self.losses.append(loss)
        self.grad_norms.append(grad_norm)

    @torch.no_grad()
    def add_tokens(
        self,
        tokens: ScoredTokens,
        behavior_logprobs: Float[Tensor, " tokens"],
        entropies: Float[Tensor, " tokens"],
        is_clipped: Bool[Tensor, " tokens"],
        *,
        streams: Sequence[int] = (),
    ) -> None:
        """Add a micro-batch's tokens, without waiting for the device unless there are parts.

        `streams` says for each row which of the parts it belongs to.
        """
        gap = (tokens.old_logprobs - behavior_logprobs).abs()
        sums = torch.stack([entropies.sum(), gap.sum(), tokens.weights.sum(), is_clipped.sum().float()]).double()
        bins = torch.log2(tokens.lengths.double()).ceil().long()[tokens.rows]
        weights = torch.zeros(_NUM_BINS, dtype=torch.float64, device=gap.device)
        weights.index_add_(0, bins, tokens.weights.double())
        counts = torch.zeros_like(weights).index_add_(0, bins, torch.ones_like(gap, dtype=torch.float64))
        self.num_computed += len(gap)
        self._sums = sums if self._sums is None else self._sums + sums
        self._gap_max = gap.max() if self._gap_max is None else torch.maximum(self._gap_max, gap.max())
        self._weights = weights if self._weights is None else self._weights + weights
        self._tokens = counts if self._tokens is None else self._tokens + counts
        for number in sorted(set(streams)) if self.parts else ():
            own = torch.tensor(streams, device=gap.device)[tokens.rows] == number
            part = _tokens_where(own, tokens)
            self.parts[number].add_tokens(part, behavior_logprobs[own], entropies[own], is_clipped[own])

    @property
    def mean_gap(self) -> float:
        """Mean |learner - engine| logprob of the tokens added so far, nats; 0 without tokens."""
        return 0.0 if self._sums is None else float(self._sums[1]) / self.num_computed

    def report(self) -> UpdateReport:
        """Read the sums."""
        sums = [None] * 4 if self._sums is None else [value / self.num_computed for value in self._sums.tolist()]
        entropy, gap_mean, importance, clip_share = sums
        return UpdateReport(
            loss=_mean(self.losses),
            grad_norm=_mean(self.grad_norms),
            learning_rate=self.learning_rate,
            num_tokens=self.num_tokens,
            num_sequences=self.num_sequences,
            num_tokens_learned=self.num_computed,
            num_steps=len(self.losses),
            num_skipped_steps=self.num_skipped_steps,
            entropy=entropy,
            logprob_gap_mean=gap_mean,
            logprob_gap_max=None if self._gap_max is None else float(self._gap_max),
            importance_mean=importance,
            importance_by_length=self._by_length(),
            clip_share=clip_share,
        )

    def reports(self) -> list[UpdateReport]:
        """Read the sums, one report a stream: means over tokens are over the stream's own, all else is the whole update's."""
        whole = self.report()
        own = [part.report() for part in self.parts]
        return [
            replace(
                whole,
                num_tokens_learned=part.num_tokens_learned,
                entropy=part.entropy,
                logprob_gap_mean=part.logprob_gap_mean,
                logprob_gap_max=part.logprob_gap_max,
                importance_mean=part.importance_mean,
                importance_by_length=part.importance_by_length,
                clip_share=part.clip_share,
            )
            for part in own
        ] or [whole]

    def _by_length(self) -> dict[str, float]:
        if self._weights is None or self._tokens is None:
            return {}
        pairs: Sequence[tuple[float, float]] = list(zip(self._weights.tolist(), self._tokens.tolist(), strict=True))
        return {str(2**bin_): total / count for bin_, (total, count) in enumerate(pairs) if count}


def _tokens_where(own: Bool[Tensor, " tokens"], tokens: ScoredTokens) -> ScoredTokens:
    return ScoredTokens(
        logprobs=tokens.logprobs[own],
        old_logprobs=tokens.old_logprobs[own],
        weights=tokens.weights[own],
        advantages=tokens.advantages[own],
        rows=tokens.rows[own],
        lengths=tokens.lengths,
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
