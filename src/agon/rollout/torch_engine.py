"""Sample with the model in this process, on a CPU or a small GPU: the same weights, the same tokenizer, no second copy."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Sequence
from contextlib import closing

import torch

from agon.errors import EngineError
from agon.model.base import Base
from agon.records import Completion, Request
from agon.rollout.batching import decode
from agon.rollout.decoding import ModelCall
from agon.rollout.engine import OnFinish
from agon.rollout.lean import replaced
from agon.rollout.rows import Ended
from agon.rollout.torch_parts import SamplingSource, TorchParts


class _NoRoomError(Exception):
    """A batch was out of the device's memory."""


class TorchEngine:
    """Sample from a pair of adapters, or from a bare base, with transformers and torch alone.

    Requests are grouped by adapter. Within a group at most `max_rows` sequences are decoded at once; rows that end leave the
    batch and waiting ones take their place. A prompt with several rows is prefilled once. Sampling is over the whole
    vocabulary at the request's own temperature and top_p: a model's `generation_config` defaults are not used, but all its
    stop tokens are. At temperature 0 the most likely token is taken and its logprob is 0. The text leaves out the stop token
    and other special tokens; without a tokenizer it is empty.

    What a request gets depends on its own seed alone, and not on the rest of the batch, up to rounding in the model. So rows that do not
    fit the memory are halved, once, with a warning, and what has not ended is sampled anew.
    """

    def __init__(self, source: SamplingSource | Base, *, max_rows: int = 256) -> None:
        if max_rows < 1:
            raise EngineError(f"max_rows is {max_rows}: decode at least one row")
        self._parts = TorchParts(source)
        self._max_rows = max_rows
        self._is_halved = False

    @property
    def context_length(self) -> int:
        """Most tokens that prompt and completion may have together."""
        return self._parts.base.context_length

    def generate(self, requests: Sequence[Request], on_finish: OnFinish | None = None) -> list[Completion]:
        """Sample one completion for each request, in the order of the requests.

        Raises:
            EngineError: an unknown adapter, a request that does not fit the context, or too little memory for half of `max_rows` rows.
            DivergedError: logits that are not finite.
        """
        for index, request in enumerate(requests):
            self._parts.check(request, index=index)
        completions: dict[int, Completion] = {}
        for adapter in dict.fromkeys(request.adapter for request in requests):
            indexes = [index for index, request in enumerate(requests) if request.adapter == adapter]
            while indexes:
                has_room = self._sample(requests, indexes, completions, on_finish=on_finish)
                indexes = [index for index in indexes if index not in completions]
                if not has_room:
                    self._halve_rows([requests[index] for index in indexes])
        return [completions[index] for index in range(len(requests))]

    def _sample(
        self,
        requests: Sequence[Request],
        indexes: Sequence[int],
        completions: dict[int, Completion],
        *,
        on_finish: OnFinish | None,
    ) -> bool:
        """Sample those of the requests, all of one adapter, into `completions`; return whether the memory held them to the end."""
        group = [requests[index] for index in indexes]
        try:
            # Closed at once when `on_finish` raises, so that the model is left as it was found.
            with (
                self._parts.source.sampling(group[0].adapter) as model,
                closing(self._run(ModelCall(model), group)) as run,
            ):
                for ended in run:
                    index = indexes[ended.key]
                    completions[index] = self._parts.completion(ended)
                    if on_finish is not None:
                        on_finish(index, completions[index])
        except _NoRoomError:
            # Rows are halved by who called: the failure holds on to every tensor of the batch until this returns.
            return False
        return True

    def close(self) -> None:
        """Nothing to give back: the model belongs to its pair, and caches live for one call."""

    def _run(self, call: ModelCall, requests: Sequence[Request]) -> Generator[Ended]:
        parts, max_rows = self._parts, min(self._max_rows, len(requests))
        longest_prompt = max(len(request.prompt_ids) for request in requests)
        try:
            parts.probe(call)
            with replaced(parts.lean):
                rows = parts.rows(call, room=max_rows, longest=max(request.max_tokens for request in requests))
                decoder = parts.decoder(call, room=max_rows, longest_prompt=longest_prompt)
                yield from decode(decoder, rows, requests, max_rows=max_rows)
        except torch.OutOfMemoryError:
            raise _NoRoomError from None

    def _halve_rows(self, requests: Sequence[Request]) -> None:
        num_rows = min(self._max_rows, len(requests))
        longest = max(len(request.prompt_ids) for request in requests)
        what = f"out of memory while decoding {num_rows} rows with prompts of up to {longest} tokens"
        if self._is_halved or num_rows == 1:
            raise EngineError(f"{what}: lower rollout.max_rows")
        self._max_rows, self._is_halved = num_rows // 2, True
        if self._parts.base.device.type == "cuda":
            torch.cuda.empty_cache()
        warnings.warn(
            f"{what}: {self._max_rows} are decoded at once from here on; lower rollout.max_rows", stacklevel=3
        )
