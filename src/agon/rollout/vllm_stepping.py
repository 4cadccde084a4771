"""Sample step by step with vLLM: requests of any adapter, and of the base, run side by side."""

from __future__ import annotations

import itertools

from agon.errors import EngineError
from agon.records import Request
from agon.rollout.joining import Patience
from agon.rollout.stepping import Progress
from agon.rollout.vllm_engine import VllmEngine
from agon.rollout.vllm_loop import Job, Sampled
from agon.rollout.vllm_server import Piece


class VllmSteppingEngine:
    """A `SteppingEngine` over a `VllmEngine` whose adapters are served side by side, or that serves a bare base.

    The adapters are loaded and looked at as it is made, and must stay as they are while it is open. What a request gets is what the
    `VllmEngine` gives it, which is closed with it and samples nothing else meanwhile.
    """

    def __init__(self, engine: VllmEngine) -> None:
        """Take an engine over.

        Raises:
            EngineError: it serves one adapter at a time, or an adapter does not act as it should.
        """
        if not engine.can_grow:
            raise EngineError(
                "adapters that are swapped into vLLM's weights cannot answer requests side by side: set "
                'rollout.vllm_adapters = "multi-lora"'
            )
        for name in engine.names:
            engine.load(name)
        for name in engine.names:
            engine.route(name)  # raises where there is no room for all of them
        self._engine = engine
        self._server = engine.server
        self._keys = itertools.count()
        self._waiting: dict[int, Request] = {}
        self._running: dict[str, Sampled] = {}
        self._id_of: dict[int, str] = {}
        self._patience = Patience()

    @property
    def context_length(self) -> int:
        """Most tokens that prompt and completion may have together."""
        return self._engine.context_length

    @property
    def num_open(self) -> int:
        """Requests that wait or run."""
        return len(self._waiting) + len(self._running)

    def add(self, request: Request) -> int:
        """Queue a request and return the key under which it is told of.

        Raises:
            EngineError: an unknown adapter, a request that does not fit the context, or a temperature that vLLM does not sample at.
        """
        key = next(self._keys)
        self._engine.check(request, index=key)
        self._waiting[key] = request
        return key

    def cancel(self, key: int) -> None:
        """Give a request up, waiting or running: it is not told of again. One that has ended stays as it is."""
        self._waiting.pop(key, None)
        request_id = self._id_of.pop(key, None)
        if request_id is not None:
            del self._running[request_id]
            self._server.abort([request_id])
        # Also after one that waited: what was in flight when the last that ran was given up is told to nobody.
        if not self.num_open:
            self._server.settle()

    def step(self) -> list[Progress]:
        """Take one step of vLLM's, and return what came of an earlier one; nothing where none is open.

        Raises:
            EngineError: vLLM failed, or gave a request up; every open request is lost.
        """
        try:
            group = min(len(self._waiting), self._server.options.max_rows - len(self._running))
            if self._patience.is_over(group, len(self._running)):
                self._join(group)
            if not self._running:
                self._server.settle()
                return []
            return [self._tell(piece) for piece in self._server.step() if piece.request_id in self._running]
        except BaseException:
            self._lose()
            raise

    def close(self) -> None:
        """Lose the open requests, end vLLM and give its memory back."""
        self._lose()
        self._engine.close()

    def _join(self, num: int) -> None:
        """Give vLLM those that have waited longest: no more than it has rows for, since it would let the others in one by one."""
        for key in list(itertools.islice(self._waiting, num)):
            request = self._waiting.pop(key)
            job = Job(key, request, self._engine.route(request.adapter))
            request_id = self._server.add(request, job.route)
            self._running[request_id] = Sampled(job)
            self._id_of[key] = request_id

    def _tell(self, piece: Piece) -> Progress:
        sampled = self._running[piece.request_id]
        key, num_before = sampled.job.index, len(sampled.logprobs)
        has_ended = sampled.take(piece)
        if has_ended:
            del self._running[piece.request_id], self._id_of[key]
        completion = self._engine.completion(sampled) if has_ended else None
        return Progress(key, piece.token_ids, sampled.logprobs[num_before:], completion)

    def _lose(self) -> None:
        lost = list(self._running)
        for table in (self._waiting, self._running, self._id_of):
            table.clear()
        if lost:
            self._server.abort(lost)
