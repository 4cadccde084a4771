"""What the torch engines share: the model with its adapters, the fastest way to decode it, what a request and a completion must be."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from agon.model.base import Base
from agon.records import Completion, Request
from agon.rollout.checks import check_known, check_request
from agon.rollout.decoding import Decoder, ModelCall, PlainDecoder, SlotDecoder
from agon.rollout.lean import Replacement, find_layers
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

    def prepare(self, name: str | None) -> Callable[[], AbstractContextManager[Any]]:
        """Return what does as `sampling(name)` and is quick to enter often, while the adapter stays as it is."""
        ...


class TorchParts:
    """A source with all that it takes to sample from it row by row."""

    def __init__(self, source: SamplingSource | Base) -> None:
        self.source: SamplingSource = _BareBase(source) if isinstance(source, Base) else source
        self.base = self.source.base
        self.can_prune = False
        self.lean: list[Replacement] = []
        self._vocab_size = int(self.base.model.get_input_embeddings().weight.shape[0])
        self._is_stop = np.zeros(self._vocab_size, dtype=np.bool_)
        self._is_stop[list(self.base.stop_ids)] = True
        self._text = TextReader(self.base.tokenizer)
        self._is_probed = False

    def check(self, request: Request, *, index: int) -> None:
        """Refuse a request that cannot be served.

        Raises:
            EngineError: it names an unknown adapter or unknown tokens, or does not fit the context.
        """
        check_request(request, self.base.context_length, index=index)
        check_known(request, self.source.names, self._vocab_size, index=index)

    def probe(self, call: ModelCall) -> None:
        """Find, the first time, the fastest way to decode that gives what the model's plain forward pass gives."""
        if self._is_probed:
            return
        with torch.inference_mode():
            lean = find_layers(call.model)
            if find_fault(call, lean) is not None:
                lean = []
            fault = find_fault(call) if not lean else None
        self._is_probed, self.can_prune, self.lean = True, fault is None, lean
        if fault is not None:
            warnings.warn(
                f"{type(call.model).__name__} is sampled without dropping finished rows, which is slower: {fault}",
                stacklevel=2,
            )

    def rows(self, call: ModelCall, *, room: int, longest: int) -> Rows:
        """Return rows of which nothing has been sampled yet. `longest` is the most tokens that are likely to be asked for."""
        return Rows(room=room, longest=longest, is_stop=self._is_stop, device=call.device)

    def decoder(self, call: ModelCall, *, room: int, longest_prompt: int) -> Decoder:
        """Return a decoder without rows."""
        return SlotDecoder(call, room=room, longest_prompt=longest_prompt) if self.can_prune else PlainDecoder(call)

    def completion(self, ended: Ended) -> Completion:
        """Return what a row that has ended gives to its request."""
        adapter = ended.request.adapter
        return Completion(
            token_ids=tuple(ended.token_ids),
            logprobs=tuple(ended.logprobs),
            text=self._text.read(ended.token_ids, has_stop=ended.stop_reason == "stop"),
            stop_reason=ended.stop_reason,
            adapter=adapter,
            adapter_version=self.source.version(adapter),
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

    def prepare(self, name: str | None) -> Callable[[], AbstractContextManager[Any]]:
        """Return what yields the model as it stands."""
        return lambda: nullcontext(self.base.model)
