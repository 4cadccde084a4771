"""Sample step by step with the model in this process: requests of any adapter, and of the base, run side by side."""

from __future__ import annotations

import itertools

import torch

from agon.errors import EngineError
from agon.model.base import Base
from agon.records import Request
from agon.rollout.decoding import ModelCall
from agon.rollout.lane import Lane
from agon.rollout.stepping import Progress
from agon.rollout.torch_parts import SamplingSource, TorchParts

# Of the rows: what every lane can always have, however many the others would take.
_LANE_SHARE = 16


class TorchSteppingEngine:
    """A `SteppingEngine` over a pair of adapters, or over a bare base.

    A step gives one token to every row of each adapter in turn, so that none waits for another's requests to end. At most `max_rows` rows
    run at once over all adapters; the oldest requests get free ones first, but a few rows are kept for each adapter. What a request gets is
    what `TorchEngine` gives it. Adapters must stay as they are while the engine is open.
    """

    def __init__(self, source: SamplingSource | Base, *, max_rows: int = 256) -> None:
        if max_rows < 1:
            raise EngineError(f"max_rows is {max_rows}: decode at least one row")
        self._parts = TorchParts(source)
        self._max_rows = max_rows
        self._keys = itertools.count()
        self._lane_of: dict[int, Lane] = {}
        names = (*self._parts.source.names, None)
        self._lanes: dict[str | None, Lane] = {name: Lane(self._parts, name) for name in names}
        self._share = max(max_rows // _LANE_SHARE, int(max_rows >= len(names)))
        with self._parts.source.sampling(None) as model:
            self._parts.probe(ModelCall(model))

    @property
    def context_length(self) -> int:
        """Most tokens that prompt and completion may have together."""
        return self._parts.base.context_length

    @property
    def num_open(self) -> int:
        """Requests that wait or run."""
        return len(self._lane_of)

    def add(self, request: Request) -> int:
        """Queue a request and return the key under which it is told of.

        Raises:
            EngineError: an unknown adapter, unknown tokens, or a request that does not fit the context.
        """
        key = next(self._keys)
        self._parts.check(request, index=key)
        lane = self._lanes[request.adapter]
        lane.add(key, request)
        self._lane_of[key] = lane
        return key

    def cancel(self, key: int) -> None:
        """Give a request up, waiting or running: it is not told of again. One that has ended stays as it is."""
        lane = self._lane_of.pop(key, None)
        if lane is not None:
            lane.cancel(key)

    def step(self) -> list[Progress]:
        """Sample one token for each request that runs, let others join, and return what came of it; nothing where none is open.

        Raises:
            EngineError: too little memory; every open request is lost.
            DivergedError: logits that are not finite; every open request is lost.
        """
        told: list[Progress] = []
        try:
            for lane in self._lanes.values():
                lane.sweep()
            rooms = self._rooms()
            for name, lane in self._lanes.items():
                told += lane.step(rooms.get(name, 0))
        except torch.OutOfMemoryError:
            num_open = self.num_open
            self.close()
            raise EngineError(f"out of memory with {num_open} requests open: lower rollout.max_rows") from None
        except BaseException:
            self.close()
            raise
        for progress in told:
            if progress.completion is not None:
                del self._lane_of[progress.key]
        return told

    def close(self) -> None:
        """Lose the open requests and give back their memory; the model belongs to its pair."""
        self._lane_of.clear()
        for lane in self._lanes.values():
            lane.clear()

    def _rooms(self) -> dict[str | None, int]:
        """Say how many may join in each lane: free rows go to the oldest requests, but for the share of every other lane."""
        held = {name: len(lane) for name, lane in self._lanes.items()}
        rooms: dict[str | None, int] = {}
        waiting = ((name, lane) for name, lane in self._lanes.items() if lane.num_waiting)
        for name, lane in sorted(waiting, key=lambda one: one[1].oldest):
            kept = sum(max(self._share, rows) for other, rows in held.items() if other != name)
            rooms[name] = max(0, min(lane.num_waiting, self._max_rows - kept - held[name]))
            held[name] += rooms[name]
        return rooms
