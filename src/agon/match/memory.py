"""An engine that samples no request twice, for protocols that have stages in common."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from agon.records import Completion, Request
from agon.rollout.checks import check_completions
from agon.rollout.engine import Engine, OnFinish


class _Kept(NamedTuple):
    completion: Completion
    seconds: float


class RememberingEngine:
    """Gives a request that was asked before the completion that it got then.

    A request's seed alone decides its random numbers, so that sampling it again would give the same, up to rounding in the model. The
    single answer, the cascade and the placebo of a pair, say, share their drafts, and with a doubled cap only what the plain one cut is
    sampled again. For adapters that do not learn meanwhile: one that does is refused by the check on versions. Batches do not grow here,
    since what is known need not be waited for.

    `recalled_seconds` is what completions given again had cost: of the seconds of their batch, their share of its tokens.
    """

    def __init__(self, engine: Engine) -> None:
        self.recalled_seconds = 0.0
        self._engine = engine
        self._kept: dict[Request, _Kept] = {}
        # What ended by itself, by its request without the cap.
        self._ended: dict[Request, _Kept] = {}

    @property
    def context_length(self) -> int:
        """Most tokens that prompt and completion may have together."""
        return self._engine.context_length

    def generate(self, requests: Sequence[Request], on_finish: OnFinish | None = None) -> list[Completion]:
        """Sample the requests that are new, and tell of those that are known first.

        Raises:
            EngineError: as the engine behind it.
        """
        indexes: defaultdict[Request, list[int]] = defaultdict(list)
        for index, request in enumerate(requests):
            indexes[request].append(index)
        known = {request: kept for request in indexes if (kept := self._recall(request)) is not None}
        fresh = [request for request in indexes if request not in known]

        def tell(request: Request, completion: Completion) -> None:
            if on_finish is not None:
                for index in indexes[request]:
                    on_finish(index, completion)

        for request, kept in known.items():
            self.recalled_seconds += kept.seconds
            tell(request, kept.completion)
        if fresh:
            self._sample(fresh, lambda number, completion: tell(fresh[number], completion))
        return [(known.get(request) or self._kept[request]).completion for request in requests]

    def close(self) -> None:
        """Close the engine behind it."""
        self._engine.close()

    def _recall(self, request: Request) -> _Kept | None:
        if request in self._kept:
            return self._kept[request]
        ended = self._ended.get(replace(request, max_tokens=0))
        # A higher cap, or a lower one that it stays below, would not have ended it elsewhere.
        return ended if ended is not None and ended.completion.num_tokens <= request.max_tokens else None

    def _sample(self, requests: Sequence[Request], on_finish: OnFinish) -> None:
        started = time.perf_counter()
        completions = self._engine.generate(requests, on_finish)
        seconds = time.perf_counter() - started
        check_completions(requests, completions)
        per_token = seconds / sum(completion.num_tokens for completion in completions)
        for request, completion in zip(requests, completions, strict=True):
            kept = self._kept[request] = _Kept(completion, per_token * completion.num_tokens)
            if not completion.is_truncated:
                self._ended[replace(request, max_tokens=0)] = kept
