"""The model's side of sampling: prompts in and next-token logits out, then one token a row in and next-token logits out."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers.cache_utils import Cache, DynamicCache

from agon.errors import EngineError
from agon.rollout.attention import decoding
from agon.rollout.cache import DecodeCache, has_running_state, prefill_cache

_MAX_PREFILL_TOKENS = 16384
_MAX_PREFILL_LOGITS = 1 << 26

_Group = tuple[tuple[int, ...], int]  # a prompt and its number of rows


@runtime_checkable
class Decoder(Protocol):
    """Keeps what the rows being decoded have left in the model, in the order of the rows."""

    can_prune: bool

    def admit(self, prompts: Sequence[Sequence[int]]) -> Float[Tensor, "joining vocab"]:
        """Let one row a prompt join at the end, and return the logits of the first token of each.

        Prompts come shortest first, equal ones side by side.
        """
        ...

    def step(self, tokens: Int[Tensor, " rows"], positions: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Feed each row its newest token, and return the logits of the next."""
        ...

    def select(self, rows: Sequence[int]) -> None:
        """Let row i be what row `rows[i]` was; rows that are not named leave."""
        ...


class ModelCall:
    """Call a causal language model whatever its version of transformers names the cache."""

    def __init__(self, model: Any) -> None:
        parameters = inspect.signature(model.forward).parameters
        names = [name for name in ("cache", "past_key_values") if name in parameters]
        if not names:
            raise EngineError(
                f"{type(model).__name__} takes no cache in its forward: the torch engine cannot sample from it"
            )
        self.model = model
        self.config = model.config.get_text_config()
        self.device = next(model.parameters()).device
        self.keeps_logits = "logits_to_keep" in parameters
        self._cache_name = names[0]

    def __call__(
        self,
        ids: Int[Tensor, "rows seq"],
        cache: Cache,
        *,
        keep: Int[Tensor, " kept"] | None = None,
        **inputs: Any,
    ) -> Float[Tensor, "rows kept vocab"]:
        """Return the logits at positions `keep` (the last one when not given)."""
        inputs[self._cache_name] = cache
        if self.keeps_logits:
            inputs["logits_to_keep"] = 1 if keep is None else keep
            return self.model(input_ids=ids, use_cache=True, **inputs).logits
        logits = self.model(input_ids=ids, use_cache=True, **inputs).logits
        return logits[:, -1:] if keep is None else logits[:, keep]


class SlotDecoder:
    """Decode rows of any length together; rows join and leave between steps.

    A prompt that several rows share is prefilled once. Prompts are padded on the right, where causal attention never looks;
    families with a state along the sequence are prefilled by groups of equal length instead.
    """

    can_prune = True

    def __init__(self, call: ModelCall, *, room: int, longest_prompt: int) -> None:
        self._call = call
        self._cache = DecodeCache(call.config, room=room, longest_prompt=longest_prompt)
        self._is_exact = has_running_state(call.config)

    def admit(self, prompts: Sequence[Sequence[int]]) -> Float[Tensor, "joining vocab"]:
        """Let one row a prompt join at the end, and return the logits of the first token of each."""
        groups = [(prompt, len(list(rows))) for prompt, rows in groupby(map(tuple, prompts))]
        logits: list[Tensor] = []
        for batch in self._batches(groups):
            prefilled, last = self._prefill([prompt for prompt, _ in batch])
            sources = [source for source, (_, count) in enumerate(batch) for _ in range(count)]
            self._cache.admit(prefilled, sources, [len(batch[source][0]) for source in sources])
            logits.append(last[torch.tensor(sources, device=last.device)])
        return torch.cat(logits)

    def step(self, tokens: Int[Tensor, " rows"], positions: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Feed each row its newest token, and return the logits of the next."""
        self._cache.begin_step()
        with decoding(self._call.config):
            logits = self._call(
                tokens.unsqueeze(1),
                self._cache,
                position_ids=positions.unsqueeze(1),
                attention_mask=self._cache.mask(),
            )
        self._cache.end_step()
        return logits[:, 0]

    def select(self, rows: Sequence[int]) -> None:
        """Let row i be what row `rows[i]` was; rows that are not named leave."""
        self._cache.select(rows)

    def _batches(self, groups: Sequence[_Group]) -> Iterator[list[_Group]]:
        """Cut groups, shortest prompt first, into batches whose padded size and whose logits are bounded."""
        vocab = self._call.config.vocab_size
        batch: list[_Group] = []
        lengths: set[int] = set()
        for prompt, count in groups:
            num_logits = (len(batch) + 1) * len(lengths | {len(prompt)}) * vocab
            is_full = (len(batch) + 1) * len(prompt) > _MAX_PREFILL_TOKENS or num_logits > _MAX_PREFILL_LOGITS
            if batch and (is_full or (self._is_exact and len(prompt) not in lengths)):
                yield batch
                batch, lengths = [], set()
            batch.append((prompt, count))
            lengths.add(len(prompt))
        yield batch

    def _prefill(self, prompts: Sequence[tuple[int, ...]]) -> tuple[Cache, Float[Tensor, "prompts vocab"]]:
        longest = len(prompts[-1])
        ids = torch.tensor([[*prompt, *(0,) * (longest - len(prompt))] for prompt in prompts], device=self._call.device)
        lengths = sorted({len(prompt) for prompt in prompts})
        cache = prefill_cache(self._call.config)
        keep = None if len(lengths) == 1 else torch.tensor(lengths, device=self._call.device) - 1
        logits = self._call(ids, cache, keep=keep)
        column = torch.tensor([lengths.index(len(prompt)) for prompt in prompts], device=self._call.device)
        return cache, logits[torch.arange(len(prompts), device=self._call.device), column]


class PlainDecoder:
    """Decode prompts of equal length with the model's own cache; no row leaves before all have ended.

    For families whose cache isn't known to let rows be taken out.
    """

    can_prune = False

    def __init__(self, call: ModelCall) -> None:
        self._call = call
        self._cache: Cache | None = None

    def admit(self, prompts: Sequence[Sequence[int]]) -> Float[Tensor, "joining vocab"]:
        """Prefill every row."""
        assert self._cache is None, "rows join a plain decoder together"
        self._cache = DynamicCache(config=self._call.config)
        return self._call(torch.tensor(prompts, device=self._call.device), self._cache)[:, 0]

    def step(self, tokens: Int[Tensor, " rows"], positions: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Feed each row its newest token, and return the logits of the next."""
        assert self._cache is not None, "rows join before the first step"
        return self._call(tokens.unsqueeze(1), self._cache)[:, 0]

    def select(self, rows: Sequence[int]) -> None:
        """Forget all rows."""
        assert not rows, "rows leave a plain decoder together"
        self._cache = None
