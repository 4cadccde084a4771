"""Sample with the model in this process, on a CPU or a small GPU: the same weights, the same tokenizer, no second copy."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from agon.errors import EngineError
from agon.model.base import Base
from agon.records import Completion, Request
from agon.rollout.batching import decode
from agon.rollout.checks import check_known, check_request
from agon.rollout.decoding import ModelCall, PlainDecoder, SlotDecoder
from agon.rollout.engine import OnFinish
from agon.rollout.lean import Replacement, find_layers, replaced
from agon.rollout.probe import find_fault
from agon.rollout.rows import Ended, Rows
from agon.rollout.text import TextReader


@runtime_checkable
class SamplingSource(Protocol):
    """A base with named adapters, as `agon.model.pair.AdapterPair` is."""

    base: Base

    @property
    def names(self) -> Sequence[str]:
        """Every adapter."""
        ...

    def version(self, name: str | None) -> int:
        """Optimiser steps the adapter has taken; 0 for the base (None)."""
        ...

    def sampling(self, name: str | None) -> AbstractContextManager[Any]:
        """Let the model compute with that adapter, or as the bare base; yields the model."""
        ...


class TorchEngine:
    """Sample from a pair of adapters, or from a bare base, with transformers and torch alone.

    Requests are grouped by adapter. Within a group at most `max_rows` sequences are decoded at once; rows that end leave the
    batch and waiting ones take their place. A prompt with several rows is prefilled once. Sampling is over the whole
    vocabulary at the request's own temperature and top_p: a model's `generation_config` defaults are not used, but all its
    stop tokens are. At temperature 0 the most likely token is taken and its logprob is 0. The text leaves out the stop token
    and other special tokens; without a tokenizer it is empty.

    What a request gets depends on its own seed alone, and not on the rest of the batch, up to rounding in the model.
    """

    def __init__(self, pair: SamplingSource | Base, *, max_rows: int = 256) -> None:
        if max_rows < 1:
            raise EngineError(f"max_rows is {max_rows}: decode at least one row")
        self._source: SamplingSource = _BareBase(pair) if isinstance(pair, Base) else pair
        self._base = self._source.base
        self._max_rows = max_rows
        self._vocab_size = int(self._base.model.get_input_embeddings().weight.shape[0])
        self._is_stop = np.zeros(self._vocab_size, dtype=np.bool_)
        self._is_stop[list(self._base.stop_ids)] = True
        self._text = TextReader(self._base.tokenizer)
        self._is_probed = False
        self._can_prune = False
        self._lean: list[Replacement] = []

    @property
    def context_length(self) -> int:
        """Most tokens that prompt and completion may have together."""
        return self._base.context_length

    def generate(self, requests: Sequence[Request], on_finish: OnFinish | None = None) -> list[Completion]:
        """Sample one completion for each request, in the order of the requests.

        Raises:
            EngineError: an unknown adapter, a request that does not fit the context, or too little memory for `max_rows` rows.
            DivergedError: logits that are not finite.
        """
        for index, request in enumerate(requests):
            self._check(index, request)
        completions: dict[int, Completion] = {}
        for adapter in dict.fromkeys(request.adapter for request in requests):
            indexes = [index for index, request in enumerate(requests) if request.adapter == adapter]
            group = [requests[index] for index in indexes]
            # Closed at once when `on_finish` raises, so that the model is left as it was found.
            with self._source.sampling(adapter) as model, closing(self._run(ModelCall(model), group)) as run:
                for ended in run:
                    index = indexes[ended.index]
                    completions[index] = self._completion(requests[index], ended)
                    if on_finish is not None:
                        on_finish(index, completions[index])
        return [completions[index] for index in range(len(requests))]

    def close(self) -> None:
        """Nothing to give back: the model belongs to its pair, and caches live for one call."""

    def _check(self, index: int, request: Request) -> None:
        check_request(request, self.context_length, index=index)
        check_known(request, self._source.names, self._vocab_size, index=index)

    def _run(self, call: ModelCall, requests: Sequence[Request]) -> Generator[Ended]:
        max_rows = min(self._max_rows, len(requests))
        longest = max(len(request.prompt_ids) for request in requests)
        try:
            if not self._is_probed:
                self._probe(call)
            with replaced(self._lean):
                rows = Rows(requests, max_rows=max_rows, is_stop=self._is_stop, device=call.device)
                decoder = (
                    SlotDecoder(call, max_rows=max_rows, longest_prompt=longest)
                    if self._can_prune
                    else PlainDecoder(call)
                )
                yield from decode(decoder, rows, requests, max_rows)
        except torch.OutOfMemoryError:
            raise EngineError(
                f"out of memory while decoding {max_rows} rows with prompts of up to {longest} tokens: lower rollout.max_rows"
            ) from None

    def _probe(self, call: ModelCall) -> None:
        """Find the fastest way to decode that gives what the model's plain forward pass gives."""
        with torch.inference_mode():
            lean = find_layers(call.model)
            if find_fault(call, lean) is not None:
                lean = []
            fault = find_fault(call) if not lean else None
        self._is_probed, self._can_prune, self._lean = True, fault is None, lean
        if fault is not None:
            warnings.warn(
                f"{type(call.model).__name__} is sampled without dropping finished rows, which is slower: {fault}",
                stacklevel=2,
            )

    def _completion(self, request: Request, ended: Ended) -> Completion:
        ids = ended.token_ids
        return Completion(
            token_ids=tuple(ids),
            logprobs=tuple(ended.logprobs),
            text=self._text.read(ids, has_stop=ended.stop_reason == "stop"),
            stop_reason=ended.stop_reason,
            adapter=request.adapter,
            adapter_version=self._source.version(request.adapter),
        )


class _BareBase:
    """A base without adapters, seen as a source to sample from."""

    names: tuple[str, ...] = ()

    def __init__(self, base: Base) -> None:
        self.base = base

    def version(self, name: str | None) -> int:
        """Return 0: a base is never trained."""
        return 0

    def sampling(self, name: str | None) -> AbstractContextManager[Any]:
        """Yield the model as it stands."""
        return nullcontext(self.base.model)
