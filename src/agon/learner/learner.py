"""One optimiser step (or a few) of one adapter on its own stream of completions."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.optim import AdamW

from agon.config import TrainSettings
from agon.errors import ConfigError, DivergedError, EngineError, ModelError
from agon.learner.dump import write_batch
from agon.learner.losses import LOSSES, ScoredTokens, StepCounts, importance_weights
from agon.learner.optimizer import learning_rate, load_optimizer_state, make_optimizer, optimizer_state
from agon.learner.packing import MicroBatch, Sample, cut_microbatches, lay_out, num_input_tokens
from agon.learner.report import Tally, UpdateReport
from agon.learner.runner import Runner
from agon.model.pair import AdapterPair
from agon.records import ADAPTERS
from agon.seeding import stream_seed

_Found = TypeVar("_Found")


class _DoesNotFit(Exception):
    """A micro-batch of these samples was out of the device's memory."""

    def __init__(self, chosen: Sequence[int]) -> None:
        super().__init__()
        self.chosen = tuple(chosen)


class Learner:
    """Updates adapters. Each has an AdamW of its own, so that neither can move the other.

    Samples with zero advantage are not computed but counted in every denominator; masked ones are in neither. With one
    minibatch the update is on-policy: rho is 1, and logprobs come from the one forward pass that is needed anyway.

    A micro-batch that does not fit the device's memory is halved, once a run, and its optimiser step begun anew: sums over
    micro-batches do not depend on how they were cut, but for rounding.
    """

    def __init__(
        self,
        pair: AdapterPair,
        settings: TrainSettings,
        *,
        temperature: float,
        max_completion_tokens: int | None = None,
    ) -> None:
        """Check that the base can be learned on.

        `max_completion_tokens` is the constant that `dr_grpo` divides by; no other loss needs it.

        Raises:
            ConfigError: `dr_grpo` without `max_completion_tokens`; the base cannot be compiled and `train.compile` is "on".
            ModelError: the base's output layer is of a kind the learner does not know.
        """
        if settings.loss == "dr_grpo" and max_completion_tokens is None:
            raise ConfigError(
                'train.loss is "dr_grpo", which divides by the cap on completions: give max_completion_tokens'
            )
        self._pair = pair
        self._settings = settings
        self._max_tokens = max_completion_tokens or 1
        self._runner = Runner(pair, settings, temperature=temperature)
        self._optimizers: dict[str, AdamW] = {}
        self._checked: set[str] = set()
        self._loss = LOSSES[settings.loss]
        self._clip_low = self._loss.clip_low if settings.clip_low is None else settings.clip_low
        self._clip_high = self._loss.clip_high if settings.clip_high is None else settings.clip_high

    @property
    def runner(self) -> Runner:
        """How the model is run, and what that costs."""
        return self._runner

    def update(self, adapter: str, samples: Sequence[Sample], *, step: int, total_steps: int) -> UpdateReport:
        """Let `adapter` learn from its samples: `train.minibatches` optimiser steps, or none where there is no signal.

        Raises:
            DivergedError: a loss or gradient is not finite; no weight has changed by it.
            EngineError: engine and learner disagree by more than `train.max_logprob_gap` on average.
            ResourceError: the device is out of memory, and has been before.
        """
        return self.update_together(adapter, [samples], step=step, total_steps=total_steps)[0]

    def update_together(
        self,
        adapter: str,
        streams: Sequence[Sequence[Sample]],
        *,
        step: int,
        total_steps: int,
        position: float | int | None = None,
    ) -> list[UpdateReport]:
        """Let `adapter` learn from several streams in the same optimiser steps, and report on each.

        Every token counts the same, whichever stream it is in. `position` is where in the schedule of the learning rate the step
        stands, in steps; None is `step`.

        Raises:
            DivergedError, EngineError, ResourceError: as `update`.
        """
        samples = [sample for stream in streams for sample in stream]
        _check_samples(samples)
        parts = self._settings.minibatches
        rate = learning_rate(self._settings, step=step if position is None else position, total_steps=total_steps)
        tally = Tally(learning_rate=rate)
        if len(streams) > 1:
            tally.parts = [Tally(learning_rate=rate) for _ in streams]
        stream_of = [number for number, stream in enumerate(streams) for _ in stream]
        # Every minibatch takes its share of each group: samples come group by group.
        minibatches = [range(start, len(samples), parts) for start in range(parts)]
        learned = [_learned(samples, indices) for indices in minibatches]
        old = self._old_logprobs(adapter, samples, learned) if parts > 1 else None
        seed = stream_seed(self._settings.seed, "dropout", adapter, step)
        take_step = partial(self._step, adapter, samples, old=old, rate=rate, stream_of=stream_of, seed=seed)
        for indices, active in zip(minibatches, learned, strict=True):
            counts = self._counts(samples, indices)
            tally.count(counts)
            if not active:
                tally.num_skipped_steps += 1
                continue
            tally = self._fitting(samples, partial(take_step, active, counts=counts, tally=tally))
        return tally.reports()

    def state(self) -> dict[str, dict[str, Tensor]]:
        """Return each adapter's optimiser moments and step counts, by name (no copies)."""
        return {name: optimizer_state(self._optimizer(name), list(self._pair.state(name))) for name in ADAPTERS}

    def load_state(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Restore what `state` returned.

        Raises:
            ModelError: names the adapter or tensor that does not fit.
        """
        for adapter, tensors in state.items():
            load_optimizer_state(self._optimizer(adapter), list(self._pair.state(adapter)), tensors)

    def save_batch(self, folder: Path, samples: Sequence[Sample]) -> Path:
        """Write samples into `folder` for a post-mortem and return the folder."""
        return write_batch(folder, samples)

    # --- preparing

    def _cuts(self, samples: Sequence[Sample], active: Sequence[int]) -> list[tuple[int, ...]]:
        budget, is_packed = self._runner.tokens_per_microbatch, self._runner.is_packed
        return cut_microbatches(samples, active, budget=budget, is_packed=is_packed)

    def _lay_out(self, samples: Sequence[Sample], chosen: Sequence[int]) -> MicroBatch:
        return lay_out(samples, chosen, is_packed=self._runner.is_packed, device=self._pair.base.device)

    def _counts(self, samples: Sequence[Sample], indices: Sequence[int]) -> StepCounts:
        counted = [samples[index] for index in indices if not samples[index].is_masked]
        num_tokens = sum(len(sample.completion_ids) for sample in counted)
        return StepCounts(num_tokens=num_tokens, num_sequences=len(counted), max_tokens=self._max_tokens)

    def _old_logprobs(
        self, adapter: str, samples: Sequence[Sample], minibatches: Sequence[Sequence[int]]
    ) -> dict[int, Tensor]:
        """Return the logprobs of every learned sample's tokens, by its index, as they are before the update."""
        old: dict[int, Tensor] = {}
        for active in minibatches:
            old |= self._fitting(samples, partial(self._scored, adapter, samples, active))
        return old

    @torch.no_grad()
    def _scored(self, adapter: str, samples: Sequence[Sample], active: Sequence[int]) -> dict[int, Tensor]:
        found: dict[int, Tensor] = {}
        with self._runner.frozen(adapter) as model:
            for chosen in self._cuts(samples, active):
                with _out_of_memory(chosen):
                    logprobs = self._runner.score(model, self._lay_out(samples, chosen)).logprobs
                lengths = [len(samples[index].completion_ids) for index in chosen]
                found |= zip(chosen, logprobs.split(lengths), strict=True)
        return found

    def _fitting(self, samples: Sequence[Sample], run: Callable[[], _Found]) -> _Found:
        """Return what `run` does with micro-batches; where one does not fit the memory, halve them and run it again."""
        while True:
            try:
                return run()
            except _DoesNotFit as error:
                chosen = error.chosen
            # Out of the handler: the failure holds on to every tensor of its pass.
            num_tokens = num_input_tokens(samples, chosen, is_packed=self._runner.is_packed)
            self._runner.halve(num_tokens, num_samples=len(chosen))

    # --- one optimiser step

    def _step(
        self,
        adapter: str,
        samples: Sequence[Sample],
        active: Sequence[int],
        *,
        old: Mapping[int, Tensor] | None,
        counts: StepCounts,
        rate: float,
        tally: Tally,
        stream_of: Sequence[int],
        seed: int,
    ) -> Tally:
        """Take a step; return the tally with what it did. The given one is left as it was, for a step that is begun anew."""
        optimizer, tally = self._optimizer(adapter), copy.deepcopy(tally)
        optimizer.zero_grad(set_to_none=True)
        loss = torch.zeros((), device=self._pair.base.device)
        is_packed, cuts = self._runner.is_packed, self._cuts(samples, active)
        largest = max(num_input_tokens(samples, chosen, is_packed=is_packed) for chosen in cuts)
        try:
            with (
                _dropout_stream(self._pair, seed),
                self._runner.training(adapter, num_tokens=largest) as model,
            ):
                for chosen in cuts:
                    with _out_of_memory(chosen):
                        loss += self._backward(
                            model, samples, chosen, old=old, counts=counts, tally=tally, stream_of=stream_of
                        )
                norm = torch.nn.utils.clip_grad_norm_(self._pair.parameters(adapter), self._settings.max_grad_norm)
                self._check(adapter, loss, norm, tally)
                for group in optimizer.param_groups:
                    group["lr"] = rate
                optimizer.step()
        finally:
            # A gradient left behind would move the adapter at the next step of any optimiser that holds it.
            optimizer.zero_grad(set_to_none=True)
        self._pair.count_step(adapter)
        tally.add_step(loss=float(loss), grad_norm=float(norm))
        return tally

    def _backward(
        self,
        model: Any,
        samples: Sequence[Sample],
        chosen: Sequence[int],
        *,
        old: Mapping[int, Tensor] | None,
        counts: StepCounts,
        tally: Tally,
        stream_of: Sequence[int],
    ) -> Tensor:
        # Laid out when its turn comes, while the device still computes the one before.
        batch = self._lay_out(samples, chosen)
        out = self._runner.score(model, batch)
        old_logprobs = out.logprobs.detach() if old is None else torch.cat([old[index] for index in chosen])
        weights = importance_weights(old_logprobs, batch.behavior_logprobs, self._settings.importance_cap)
        tokens = ScoredTokens(
            logprobs=out.logprobs,
            old_logprobs=old_logprobs,
            weights=weights,
            advantages=batch.advantages[batch.rows],
            rows=batch.rows,
            lengths=batch.lengths,
        )
        terms = self._loss.function(tokens, counts, self._clip_low, self._clip_high)
        terms.loss.backward()
        streams = [stream_of[index] for index in chosen]
        tally.add_tokens(tokens, batch.behavior_logprobs, out.entropies, terms.is_clipped, streams=streams)
        return terms.loss.detach()

    def _check(self, adapter: str, loss: Tensor, norm: Tensor, tally: Tally) -> None:
        if not (math.isfinite(float(loss)) and math.isfinite(float(norm))):
            raise DivergedError(
                f"the loss of adapter {adapter} is {float(loss):g} and its gradient norm {float(norm):g}: no weight was changed; "
                "lower train.learning_rate, or look at the batch"
            )
        gap = tally.mean_gap
        if gap > self._settings.max_logprob_gap:
            raise EngineError(
                f"engine and learner disagree by {gap:.3g} nats a token on adapter {adapter} (train.max_logprob_gap is "
                f"{self._settings.max_logprob_gap:g}): the engine may hold a stale adapter"
            )
        if adapter not in self._checked:
            self._checked.add(adapter)
            _warn_of_untrained_layers(self._pair, adapter)

    def _optimizer(self, adapter: str) -> AdamW:
        if adapter not in ADAPTERS:
            raise ModelError(f"adapter {adapter!r} is frozen: only {' and '.join(ADAPTERS)} learn")
        if adapter not in self._optimizers:
            self._optimizers[adapter] = make_optimizer(self._pair.parameters(adapter), self._settings)
        return self._optimizers[adapter]


def _learned(samples: Sequence[Sample], indices: Sequence[int]) -> list[int]:
    return [index for index in indices if not samples[index].is_masked and samples[index].advantage != 0.0]


@contextmanager
def _out_of_memory(chosen: Sequence[int]) -> Generator[None]:
    """Name the samples of a micro-batch for which the device has no memory."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise _DoesNotFit(chosen) from None


def _check_samples(samples: Sequence[Sample]) -> None:
    for index, sample in enumerate(samples):
        num_tokens, num_logprobs = len(sample.completion_ids), len(sample.behavior_logprobs)
        if num_tokens != num_logprobs or not num_tokens:
            raise EngineError(
                f"sample {index} has {num_tokens} tokens and {num_logprobs} logprobs: the engine must give one for each token"
            )
        if not sample.prompt_ids:
            raise EngineError(f"sample {index} has an empty prompt: nothing predicts its first token")
        if not all(map(math.isfinite, sample.behavior_logprobs)):
            raise EngineError(f"sample {index} has a logprob that is not finite: the engine's weights may be damaged")
        if not math.isfinite(sample.advantage):
            raise DivergedError(f"sample {index} has advantage {sample.advantage}: no weight was changed")


def _warn_of_untrained_layers(pair: AdapterPair, adapter: str) -> None:
    missing = [site.path for site in pair.sites if site.up(adapter).grad is None]
    assert len(missing) < len(pair.sites), "no adapted layer got a gradient: the graph is cut"
    if missing:
        warnings.warn(f"{len(missing)} adapted layers get no gradient (first: {missing[0]})", stacklevel=2)


@contextmanager
def _dropout_stream(pair: AdapterPair, seed: int) -> Generator[None]:
    """Let LoRA dropout, which draws from torch's global stream, draw from a stream of its own."""
    if pair.settings.dropout == 0.0:
        yield
        return
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield
