"""How differently two policies go on from the same text: divergences of their next-token distributions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from agon.learner.logprobs import Head, output_head
from agon.learner.packing import MicroBatch, Sample, make_microbatches
from agon.model.pair import AdapterPair
from agon.records import Attempt
from agon.seeding import numpy_rng
from agon.stats.intervals import DEFAULT_RESAMPLES, Interval, expanded_percentiles, resampled_totals

_LEVEL = 0.95
# Input tokens between two switches of the adapter, of which the hidden states are kept.
_TOKENS_AT_ONCE = 16_384
# Logits of one policy at a time; eight tensors of this many doubles are alive at once.
_LOGITS_AT_ONCE = 4_000_000

Text = Sequence[Sequence[Attempt]]
"""Completions to read, one inner sequence a problem."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """Two policies on text that `text` sampled: means over its `num_tokens` sampled tokens, each over the whole vocabulary.

    `kl` is KL(first || second), `kl_reverse` KL(second || first), `js` the Jensen-Shannon divergence (at most ln 2), `top1_agreement`
    the share of tokens at which both hold the same token the most likely. `intervals` resamples problems; one is None where no two
    problems differ. Adapters by name, `base` for the bare base.

    Units: nats a token.
    """

    text: str
    first: str
    second: str
    kl: float
    kl_reverse: float
    js: float
    top1_agreement: float
    num_tokens: int
    intervals: dict[str, Interval | None]


_MEASURES = ("kl", "kl_reverse", "js", "top1_agreement")


class _Read(NamedTuple):
    """For each pair of policies the totals over a sample's tokens, one row a sample; and the samples' numbers of tokens."""

    totals: dict[tuple[str | None, str | None], Float[ndarray, "samples measures"]]
    num_tokens: Float[ndarray, " samples"]


def divergences(
    pair: AdapterPair,
    text: Text,
    *,
    name: str,
    between: Sequence[tuple[str | None, str | None]],
    temperature: float,
    seed: int,
) -> list[Divergence]:
    """Read what adapter `name` sampled with every policy named in `between` (None is the base), and compare them token by token.

    Distributions are softmax(logits / temperature), without the cut of top_p. Each policy reads the prompt too, but only sampled tokens
    count. A mean over tokens that `name` itself sampled at that temperature is an unbiased estimate of its own KL a token to
    another policy; over another's text it is a distance on that text, no more.
    """
    flat = [attempt for of_problem in text for attempt in of_problem]
    problems = np.repeat(np.arange(len(text)), [len(of_problem) for of_problem in text])
    read = _read(pair, flat, between, temperature)
    counts = np.bincount(problems, weights=read.num_tokens, minlength=len(text))
    return [
        _divergence(
            name,
            policies,
            np.stack(
                [np.bincount(problems, weights=column, minlength=len(text)) for column in read.totals[policies].T]
            ).T,
            counts,
            seed=seed,
        )
        for policies in between
    ]


def _divergence(
    name: str,
    policies: tuple[str | None, str | None],
    totals: Float[ndarray, "problems measures"],
    counts: Float[ndarray, " problems"],
    *,
    seed: int,
) -> Divergence:
    means = totals.sum(axis=0) / counts.sum()
    drawn = resampled_totals(
        np.column_stack([totals, counts]), rng=numpy_rng(seed, "divergence"), num_resamples=DEFAULT_RESAMPLES
    )
    values = drawn[:, :-1] / drawn[:, -1:]
    limits = [
        Interval(*expanded_percentiles(column, len(counts), _LEVEL), _LEVEL, "cluster-bootstrap", "problem")
        if np.ptp(column) > 0.0
        else None
        for column in values.T
    ]
    first, second = (policy or "base" for policy in policies)
    return Divergence(
        name,
        first,
        second,
        *(float(mean) for mean in means),
        num_tokens=int(counts.sum()),
        intervals=dict(zip(_MEASURES, limits, strict=True)),
    )


# Not inference_mode: adapters merged here may be kept, and trained on later.
@torch.no_grad()
def _read(
    pair: AdapterPair,
    attempts: Sequence[Attempt],
    between: Sequence[tuple[str | None, str | None]],
    temperature: float,
) -> _Read:
    head = output_head(pair.base.model)
    samples = [
        Sample(attempt.prompt.token_ids, attempt.completion.token_ids, attempt.completion.logprobs, 0.0)
        for attempt in attempts
    ]
    policies = list(dict.fromkeys(policy for both in between for policy in both))
    totals = {both: np.zeros((len(samples), len(_MEASURES))) for both in between}
    read = [index for index, sample in enumerate(samples) if len(sample.completion_ids)]
    device = pair.base.device
    for batch in make_microbatches(samples, read, budget=_TOKENS_AT_ONCE, is_packed=False, device=device):
        hidden = {policy: _hidden(pair, policy, batch) for policy in policies}
        rows = np.array(batch.samples)[batch.rows.cpu().numpy()]
        for part in _parts(len(rows), head):
            logprobs = {policy: _logprobs(head, states[part], temperature) for policy, states in hidden.items()}
            for first, second in between:
                terms = _terms(logprobs[first], logprobs[second]).cpu().numpy()
                np.add.at(totals[first, second], rows[part], terms)
    return _Read(totals, np.array([len(sample.completion_ids) for sample in samples], dtype=float))


def _hidden(pair: AdapterPair, policy: str | None, batch: MicroBatch) -> Float[Tensor, "tokens width"]:
    with pair.sampling(policy) as model:
        # Padding stands at the end, where no real token looks.
        states: Any = model.get_decoder()(input_ids=batch.input_ids, use_cache=False).last_hidden_state
    return states.flatten(0, 1).index_select(0, batch.predict_index)


def _parts(num_tokens: int, head: Head) -> Iterator[slice]:
    step = max(1, _LOGITS_AT_ONCE // len(head.weight))
    return (slice(start, start + step) for start in range(0, num_tokens, step))


def _logprobs(head: Head, hidden: Float[Tensor, "tokens width"], temperature: float) -> Float[Tensor, "tokens vocab"]:
    logits = head.logits(hidden)
    # float64: a KL of 1e-4 is a sum of terms a thousand times its size. Apple's devices have none.
    logits = logits if logits.device.type == "mps" else logits.double()
    return torch.log_softmax(logits / temperature, dim=-1)


def _terms(
    first: Float[Tensor, "tokens vocab"], second: Float[Tensor, "tokens vocab"]
) -> Float[Tensor, "tokens measures"]:
    middle = torch.logaddexp(first, second) - float(np.log(2.0))
    js = 0.5 * (_kl(first, middle) + _kl(second, middle))
    agreed = (first.argmax(dim=-1) == second.argmax(dim=-1)).to(js.dtype)
    return torch.stack([_kl(first, second), _kl(second, first), js, agreed], dim=-1)


def _kl(first: Float[Tensor, "tokens vocab"], second: Float[Tensor, "tokens vocab"]) -> Float[Tensor, " tokens"]:
    # where, not *: a probability of 0 times an infinite difference is NaN.
    terms = torch.where(first.isneginf(), 0.0, first.exp() * (first - second))
    return terms.sum(dim=-1).clamp_min(0.0)
