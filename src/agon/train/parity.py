"""Engine against learner: the logprobs of the same tokens, and the weights that follow from them.

A completion's logprobs say how likely the engine was to draw each token; the update weighs tokens by how likely the learner was.
If the engine's word is true, that weight is 1 on average, for long completions as for short ones, whatever rounding does to single
tokens. A mean that is off, or off for some lengths alone, means another distribution: a stale adapter, a wrong temperature, an old
prefix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from agon.errors import EngineError
from agon.learner.packing import Sample, make_microbatches
from agon.learner.runner import Runner
from agon.match.session import Session
from agon.model.pair import AdapterPair
from agon.records import ADAPTERS, Problem, Request
from agon.rollout.torch_engine import TorchEngine
from agon.seeding import stream_seed

_MAX_SAMPLES = 32
_START_PROBLEMS = 16
_START_TOKENS = 256
# A mean weight may be off by this, and by so many of its standard errors.
_WEIGHT_TOLERANCE = 0.02
_WEIGHT_ERRORS = 5.0


@dataclass(frozen=True, slots=True)
class Weight:
    """Mean of learner over engine probability, of the tokens of some completions; with its standard error."""

    mean: float
    error: float
    num_tokens: int


@dataclass(frozen=True, slots=True)
class ParityReport:
    """How far apart engine and learner are on an adapter's completions. Units: nats a token.

    `by_length` groups completions by length; a key is the upper end of its bin.
    """

    adapter: str
    gap_mean: float
    gap_max: float
    weight: Weight
    by_length: dict[int, Weight]

    def __str__(self) -> str:
        lengths = ", ".join(f"<={length}: {weight.mean:.3f}" for length, weight in self.by_length.items())
        return (
            f"adapter {self.adapter}: engine and learner differ by {self.gap_mean:.2g} nats a token (at most {self.gap_max:.2g}) on "
            f"{self.weight.num_tokens} tokens; mean weight {self.weight.mean:.4f} ({lengths})"
        )


class Parity:
    """Compares now and then, and stops a run whose engine and learner have parted."""

    def __init__(self, pair: AdapterPair, runner: Runner, *, every: int, max_gap: float, tokens_per_batch: int) -> None:
        """Compare every `every` steps (0: only when asked), and allow a mean gap of `max_gap` nats a token."""
        self._pair = pair
        self._runner = runner
        self._every = every
        self._max_gap = max_gap
        self._tokens_per_batch = tokens_per_batch

    def is_due(self, step: int) -> bool:
        """Whether to compare in this step."""
        return self._every > 0 and step % self._every == 0

    def check(self, adapter: str, samples: Sequence[Sample]) -> ParityReport:
        """Compare on some of an adapter's samples, before it learns from them.

        Raises:
            EngineError: they are too far apart, on average or for completions of some length.
        """
        report = self.measure(adapter, samples)
        if report.gap_mean > self._max_gap:
            raise EngineError(
                f"{report}; train.max_logprob_gap allows {self._max_gap:g}: the engine samples from another policy than learns"
            )
        for what, weight in (("all", report.weight), *report.by_length.items()):
            if abs(weight.mean - 1.0) > _WEIGHT_TOLERANCE + _WEIGHT_ERRORS * weight.error:
                which = "" if what == "all" else f" for completions of up to {what} tokens"
                raise EngineError(
                    f"{report}; the mean weight{which} is {weight.mean:.3f} +- {weight.error:.3f}, but 1 is right: the engine's "
                    "logprobs are not those of what it sampled from"
                )
        return report

    @torch.no_grad()
    def measure(self, adapter: str, samples: Sequence[Sample]) -> ParityReport:
        """Return how far apart they are, whatever it is."""
        device = self._pair.base.device
        batches = make_microbatches(
            samples,
            _spread(samples),
            budget=self._tokens_per_batch,
            is_packed=self._runner.is_packed,
            device=device,
        )
        ratios: list[Tensor] = []
        lengths: list[Tensor] = []
        with self._runner.frozen(adapter) as model:
            for batch in batches:
                ratios.append((self._runner.score(model, batch).logprobs - batch.behavior_logprobs).double().cpu())
                lengths.append(batch.lengths[batch.rows].cpu())
        ratio, length = torch.cat(ratios), torch.cat(lengths)
        bins = torch.log2(length.double()).ceil().long()
        return ParityReport(
            adapter=adapter,
            gap_mean=float(ratio.abs().mean()),
            gap_max=float(ratio.abs().max()),
            weight=_weight(ratio),
            by_length={2 ** int(bin_): _weight(ratio[bins == bin_]) for bin_ in bins.unique()},
        )


def check_start(
    parity: Parity,
    session: Session,
    problems: Sequence[Problem],
    *,
    temperature: float,
    seed: int,
    say: Callable[[str], None],
) -> None:
    """Sample a little from each adapter and compare, before the first step. The torch engine computes with the learner's own model.

    Raises:
        EngineError: engine and learner are too far apart.
    """
    if isinstance(session.engine, TorchEngine):
        return
    for adapter in ADAPTERS:
        requests = [
            Request(
                session.prompts.draft(problem).token_ids,
                adapter,
                min(_START_TOKENS, session.engine.context_length // 2),
                stream_seed(seed, "parity", adapter, problem.id),
                temperature=temperature,
            )
            for problem in problems[:_START_PROBLEMS]
        ]
        samples = [
            Sample(request.prompt_ids, completion.token_ids, completion.logprobs, advantage=1.0)
            for request, completion in zip(requests, session.engine.generate(requests), strict=True)
        ]
        say(str(parity.check(adapter, samples)))


def _spread(samples: Sequence[Sample]) -> list[int]:
    """Pick some samples of every length there is."""
    order = sorted(range(len(samples)), key=lambda index: len(samples[index].completion_ids))
    count = min(_MAX_SAMPLES, len(order))
    return sorted({order[number * (len(order) - 1) // max(count - 1, 1)] for number in range(count)})


def _weight(ratio: Tensor) -> Weight:
    weights = ratio.exp()
    error = float(weights.std()) / math.sqrt(len(weights)) if len(weights) > 1 else math.inf
    return Weight(mean=float(weights.mean()), error=error, num_tokens=len(weights))
