"""The model as an update runs it: packed or padded, compiled or not, recomputed where memory asks for it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from agon.config import TrainSettings
from agon.errors import ConfigError, ResourceError
from agon.learner import flash
from agon.learner.attention import FLASH_NAME, NAME
from agon.learner.forward import attention_for, can_pack, score
from agon.learner.layers import Forward, compile_layers, decoder_layers, running_layers
from agon.learner.logprobs import TokenLogprobs, output_head
from agon.learner.packing import MicroBatch, Sample, make_microbatches
from agon.model.base import Base
from agon.model.memory import free_bytes
from agon.model.pair import AdapterPair
from agon.records import ADAPTERS

# Below this a base trains as fast as it compiles.
_SMALLEST_COMPILED = 100_000_000
_PROBE_TOKENS = 512
LOGPROB_CHUNK = {"cpu": 1024, "cuda": 4096}
# Fewer tokens leave a GPU waiting for the host, more gain nothing (docs/benchmarks.md).
FEWEST_TOKENS, MOST_TOKENS, _TOKENS_STEP = 8192, 32_768, 4096
# Share of the free memory that activations may take: gradients on their way, and fragments, take the rest.
_ACTIVATION_SHARE = 0.8
# Bytes a logit needs at once: itself, its float32 copy and three more of those; compiled, itself and its gradient.
LOGIT_BYTES = {True: 4, False: 18}


class Halving(NamedTuple):
    """Tokens of a micro-batch that did not fit the device's memory, and of those that are run since."""

    before: int
    after: int


class Runner:
    """Runs micro-batches. What it found out at the start is in its attributes.

    `attention` is the name of the attention that packed sequences run by. `compile_seconds` is what the first compiled forward and
    backward pass took, 0 without. `bytes_per_token` is what a token's activations take without recomputation, measured; None where
    memory is not watched (no CUDA device). `tokens_per_microbatch` is the budget that micro-batches are cut by, and `halving` says
    that it had to be halved.
    """

    def __init__(self, pair: AdapterPair, settings: TrainSettings, *, temperature: float) -> None:
        """Find out how the base can be run.

        Raises:
            ConfigError: `train.compile` is "on" and the base cannot be compiled, or `train.attention` is "flash4" and it cannot
                be had.
            ModelError: the base's output layer is of a kind the learner does not know.
        """
        self._pair = pair
        self._settings = settings
        self._temperature = temperature
        self._head = output_head(pair.base.model)
        self._chunk = settings.logprob_chunk or LOGPROB_CHUNK.get(pair.base.device.type, LOGPROB_CHUNK["cpu"])
        self._layers = decoder_layers(pair.base.model)
        self._forwards: list[Forward] | None = None
        self.is_packed = can_pack(pair.base)
        self.attention = _choose_attention(pair.base, settings) if self.is_packed else NAME
        self.bytes_per_token: int | None = None
        self.compile_seconds = 0.0
        self.halving: Halving | None = None
        if _wants_compiling(pair, settings, is_packed=self.is_packed):
            self._compile()
        if pair.base.device.type == "cuda":
            self.bytes_per_token = self._measure_bytes()
        self.tokens_per_microbatch = settings.tokens_per_microbatch or self._choose_tokens()

    @property
    def is_compiled(self) -> bool:
        """Whether decoder layers are compiled."""
        return self._forwards is not None

    @contextmanager
    def frozen(self, adapter: str) -> Generator[Any]:
        """Let the model compute with `adapter`, without gradients; yields the model."""
        with (
            self._pair.sampling(adapter, is_traced=self.is_compiled) as model,
            self._running(model, is_recomputed=False),
        ):
            yield model

    @contextmanager
    def training(self, adapter: str, *, num_tokens: int) -> Generator[Any]:
        """Let `adapter` get gradients from micro-batches of at most `num_tokens` input tokens; yields the model."""
        with self._learning(adapter, is_recomputed=self.is_recomputed(num_tokens)) as model:
            yield model

    def score(self, model: Any, batch: MicroBatch) -> TokenLogprobs:
        """Return logprob and entropy of each completion token, inside `frozen` or `training`."""
        return score(
            model,
            batch,
            self._head,
            temperature=self._temperature,
            chunk=self._chunk,
            is_compiled=self.is_compiled,
        )

    def is_recomputed(self, num_tokens: int) -> bool:
        """Tell whether activations of a micro-batch of `num_tokens` are recomputed in the backward pass."""
        chosen = self._settings.gradient_checkpointing
        if chosen != "auto" or self.bytes_per_token is None:
            return chosen is True
        return num_tokens * self.bytes_per_token > self._room()

    def halve(self, num_tokens: int, *, num_samples: int) -> None:
        """Halve the micro-batches, of which one with `num_tokens` input tokens of `num_samples` completions did not fit the memory.

        Raises:
            ResourceError: they have been halved before, or it was a single completion.
        """
        if self.halving is not None or num_samples == 1:
            raise ResourceError(_no_room(num_tokens, num_samples, self.halving))
        self.halve_to(num_tokens // 2)
        if self._pair.base.device.type == "cuda":
            torch.cuda.empty_cache()

    def halve_to(self, num_tokens: int) -> None:
        """Cut micro-batches by `num_tokens` from here on, as after `halve`; less than that stays as it is."""
        if num_tokens < self.tokens_per_microbatch:
            self.halving = Halving(before=self.tokens_per_microbatch, after=num_tokens)
            self.tokens_per_microbatch = num_tokens

    @contextmanager
    def _learning(self, adapter: str, *, is_recomputed: bool) -> Generator[Any]:
        traced = self.is_compiled
        with (
            self._pair.training(adapter, is_traced=traced) as model,
            self._running(model, is_recomputed=is_recomputed),
        ):
            yield model

    @contextmanager
    def _running(self, model: Any, *, is_recomputed: bool) -> Generator[None]:
        with (
            attention_for(model, is_packed=self.is_packed, name=self.attention),
            running_layers(model, self._layers, self._forwards, is_recomputed=is_recomputed),
        ):
            yield

    def _room(self) -> float:
        """Return the bytes that activations may take."""
        logits = self._chunk * self._head.weight.shape[0] * LOGIT_BYTES[self.is_compiled]
        return _ACTIVATION_SHARE * (free_bytes(self._pair.base.device) - logits)

    # --- at the start

    def _choose_tokens(self) -> int:
        if self.bytes_per_token is None:
            return FEWEST_TOKENS
        fitting = int(self._room() // max(self.bytes_per_token, 1)) // _TOKENS_STEP * _TOKENS_STEP
        return min(max(fitting, FEWEST_TOKENS), MOST_TOKENS)

    def _compile(self) -> None:
        started = time.perf_counter()
        self._forwards = compile_layers(self._layers)
        try:
            self._probe()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # all of torch's compilers' errors are
            self._forwards = None
            reason = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"
            if self._settings.compile == "on":
                raise ConfigError(
                    f'train.compile is "on", but this base cannot be compiled ({reason}): set it to "auto" or "off"'
                ) from error
            warnings.warn(f"the base cannot be compiled and runs as it is, which is slower ({reason})", stacklevel=4)
        else:
            self.compile_seconds = time.perf_counter() - started

    def _measure_bytes(self) -> int:
        self._probe()  # the first pass loads kernels, which stay
        return self._probe()

    def _probe(self) -> int:
        """Run a made-up micro-batch forward and backward; return the bytes a token held in between, 0 without a CUDA device."""
        base, adapter = self._pair.base, ADAPTERS[0]
        vocabulary = self._head.weight.shape[0]
        length = min(_PROBE_TOKENS, base.context_length)
        ids = tuple((7 * place + 3) % vocabulary for place in range(length))
        samples = [Sample(ids[:1], ids[1:], (0.0,) * (length - 1), 1.0)] * 2
        (batch,) = make_microbatches(samples, range(2), budget=2 * length, is_packed=self.is_packed, device=base.device)
        try:
            with self._learning(adapter, is_recomputed=False) as model:
                before = _allocated(base.device)
                logprobs = self.score(model, batch).logprobs
                held = _allocated(base.device) - before
                logprobs.sum().backward()
        finally:
            for parameter in self._pair.parameters(adapter):
                parameter.grad = None
        return held // batch.input_ids.numel()


def _no_room(num_tokens: int, num_samples: int, halving: Halving | None) -> str:
    what = f"a micro-batch of {num_tokens:,} tokens does not fit"
    if halving is not None:
        what += f", though micro-batches were halved from {halving.before:,} to {halving.after:,} tokens"
    if num_samples == 1:
        return (
            f"out of memory while learning: {what}, and holds a single completion: set train.gradient_checkpointing=true, or lower "
            "train.logprob_chunk, rollout.engine_memory_share or the caps of rollout"
        )
    return (
        f"out of memory while learning: {what}: lower train.tokens_per_microbatch or rollout.engine_memory_share, or set "
        "train.gradient_checkpointing=true; --resume takes either"
    )


def _choose_attention(base: Base, settings: TrainSettings) -> str:
    if settings.attention == "torch":
        return NAME
    is_asked = settings.attention == "flash4"
    cannot = flash.why_not(base)
    if cannot and not is_asked:
        return NAME
    wrong = cannot or flash.try_out(base)
    if wrong and is_asked:
        raise ConfigError(f'train.attention is "flash4", but {wrong}; set it to "auto" or "torch"')
    if wrong:
        warnings.warn(f"FlashAttention 4 is here, but not used, which is slower ({wrong})", stacklevel=4)
    return NAME if wrong else FLASH_NAME


def _wants_compiling(pair: AdapterPair, settings: TrainSettings, *, is_packed: bool) -> bool:
    if settings.compile != "auto":
        return settings.compile == "on"
    base = pair.base
    is_worth_it = base.num_parameters >= _SMALLEST_COMPILED and pair.settings.dropout == 0.0
    return base.device.type == "cuda" and base.dtype == torch.bfloat16 and is_packed and is_worth_it


def _allocated(device: torch.device) -> int:
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0
