"""The requests of one adapter, decoded side by side and step by step, while more join and some are given up."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any

from agon.records import Request
from agon.rollout.batching import advance, close_up, join
from agon.rollout.decoding import Decoder, ModelCall
from agon.rollout.joining import Patience
from agon.rollout.lean import replaced
from agon.rollout.rows import Ended, Keyed, Rows
from agon.rollout.stepping import Progress
from agon.rollout.torch_parts import TorchParts

# Most tokens of prompts that are read in one step (one prompt of any length is), so that those that run are not kept waiting.
_MAX_PROMPT_TOKENS = 2048
# Rows that there is room for at the least.
_LEAST_ROOM = 8


class Lane:
    """The requests of one adapter (None: the base). It holds memory for rows only while it has some.

    Requests that cannot be taken out of a running batch (families whose caches are not known) are decoded batch by batch, each of prompts
    of one length.
    """

    def __init__(self, parts: TorchParts, adapter: str | None) -> None:
        self._parts = parts
        self._adapter = adapter
        self._waiting: dict[int, Request] = {}
        self._patience = Patience()
        self._mounted: Callable[[], AbstractContextManager[Any]] | None = None
        self._call: ModelCall | None = None
        self._batch: tuple[Decoder, Rows] | None = None
        self._has_cancelled = False

    def __len__(self) -> int:
        """Rows that take up room."""
        return 0 if self._batch is None else len(self._batch[1])

    @property
    def num_waiting(self) -> int:
        """Requests that have no row."""
        return len(self._waiting)

    @property
    def oldest(self) -> int:
        """The key of the request that has waited longest."""
        return next(iter(self._waiting))

    def add(self, key: int, request: Request) -> None:
        """Let a request wait for a row. Keys grow."""
        self._waiting[key] = request

    def cancel(self, key: int) -> None:
        """Forget a request of this lane that has not ended."""
        if self._waiting.pop(key, None) is None and self._batch is not None:
            rows = self._batch[1]
            rows.drop([key])
            self._has_cancelled = True
            if not rows.num_running:
                self._batch = None

    def clear(self) -> None:
        """Forget every request, and give their memory back."""
        self._waiting.clear()
        self._batch = None

    def sweep(self) -> None:
        """Take out the rows of requests that were given up, where they can be taken out."""
        if self._has_cancelled and self._batch is not None:
            decoder, rows = self._batch
            close_up(decoder, rows, least_share=len(rows))
        self._has_cancelled = False

    def step(self, room: int) -> list[Progress]:
        """Sample a token for every row, and let at most `room` requests join with their first."""
        if not (len(self) or (room and self._waiting)):
            return []
        if self._mounted is None:
            self._mounted = self._parts.source.prepare(self._adapter)
        with self._mounted() as model, replaced(self._parts.lean):
            told = self._advance()
            joining = self._take(room)
            if joining:
                told += self._join(model, joining)
        if not len(self):
            self._batch = None
        return told

    def _advance(self) -> list[Progress]:
        if self._batch is None:
            return []
        decoder, rows = self._batch
        told = self._tell(rows, advance(decoder, rows))
        close_up(decoder, rows)
        return told

    def _join(self, model: Any, joining: list[Keyed]) -> list[Progress]:
        if self._batch is None:
            call = self._call = self._call or ModelCall(model)
            longest = max(request.max_tokens for _, request in joining)
            longest_prompt = max(len(request.prompt_ids) for _, request in joining)
            rows = self._parts.rows(call, room=_LEAST_ROOM, longest=longest)
            self._batch = self._parts.decoder(call, room=_LEAST_ROOM, longest_prompt=longest_prompt), rows
        decoder, rows = self._batch
        told = self._tell(rows, join(decoder, rows, joining))
        close_up(decoder, rows)
        return told

    def _take(self, room: int) -> list[Keyed]:
        """Take the requests that join, shortest prompt first and equal ones side by side."""
        can_prune = self._parts.can_prune
        num_running = 0 if self._batch is None else self._batch[1].num_running
        if not room or (len(self) and not can_prune) or not self._patience.is_over(len(self._waiting), num_running):
            return []
        length = len(self._waiting[self.oldest].prompt_ids)
        fit = (one for one in self._waiting.items() if can_prune or len(one[1].prompt_ids) == length)
        joining: list[Keyed] = []
        num_tokens, prompts = 0, set[tuple[int, ...]]()
        for key, request in islice(fit, room):
            num_tokens += 0 if request.prompt_ids in prompts else len(request.prompt_ids)
            if joining and num_tokens > _MAX_PROMPT_TOKENS:
                break
            prompts.add(request.prompt_ids)
            joining.append((key, request))
        for key, _ in joining:
            del self._waiting[key]
        return sorted(joining, key=lambda one: (len(one[1].prompt_ids), one[1].prompt_ids))

    def _tell(self, rows: Rows, ended: list[Ended]) -> list[Progress]:
        completions = {one.key: self._parts.completion(one) for one in ended}
        latest = rows.latest()
        return [
            Progress(key, [token], [logprob], completions.get(key))
            for key, token, logprob in zip(latest.keys, latest.tokens, latest.logprobs, strict=True)
        ]
