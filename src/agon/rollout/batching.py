"""Keep a batch full: requests wait in a queue, join when rows are free, leave when they end."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import torch

from agon.records import Request
from agon.rollout.decoding import Decoder
from agon.rollout.rows import Ended, Rows

# Of the rows: so many must be free before waiting requests join, and so many must have ended before the batch is closed up.
# Both cost about as much as a decoding step.
_JOIN_SHARE = 8
_LEAVE_SHARE = 16


class Queue:
    """Requests that wait, those of one prompt side by side and in bundles that join together."""

    def __init__(self, requests: Sequence[Request], *, max_bundle: int) -> None:
        self._requests = requests
        by_prompt: dict[tuple[int, ...], list[int]] = {}
        for index, request in enumerate(requests):
            by_prompt.setdefault(request.prompt_ids, []).append(index)
        self._bundles = deque(
            same[start : start + max_bundle] for same in by_prompt.values() for start in range(0, len(same), max_bundle)
        )

    def __bool__(self) -> bool:
        return bool(self._bundles)

    def take(self, num_free: int, *, is_one_length: bool) -> list[int]:
        """Take the requests that join next, shortest prompt first."""
        taken: list[int] = []
        while self._bundles and len(taken) + len(self._bundles[0]) <= num_free:
            if is_one_length and taken and self._length(taken[0]) != self._length(self._bundles[0][0]):
                break
            taken += self._bundles.popleft()
        return sorted(taken, key=self._length)

    def _length(self, index: int) -> int:
        return len(self._requests[index].prompt_ids)


def decode(decoder: Decoder, rows: Rows, requests: Sequence[Request], max_rows: int) -> Iterator[Ended]:
    """Sample every request to its end and yield each as it ends; `Ended.index` counts `requests`."""
    queue = Queue(requests, max_bundle=max(1, max_rows // _JOIN_SHARE))
    while queue or len(rows):
        if queue and _may_join(decoder, rows, max_rows):
            yield from _join(decoder, rows, queue, requests)
        else:
            with torch.inference_mode():
                ended = rows.advance(decoder.step(rows.newest, rows.positions))
            yield from ended
        if _should_leave(decoder, rows):
            with torch.inference_mode():
                decoder.select(rows.leave())


def _may_join(decoder: Decoder, rows: Rows, max_rows: int) -> bool:
    return not len(rows) or (decoder.can_prune and max_rows - len(rows) >= max(1, max_rows // _JOIN_SHARE))


def _join(decoder: Decoder, rows: Rows, queue: Queue, requests: Sequence[Request]) -> list[Ended]:
    first = len(rows)
    indexes = queue.take(rows.num_free, is_one_length=not decoder.can_prune)
    with torch.inference_mode():
        rows.join(indexes)
        return rows.advance(decoder.admit([requests[index].prompt_ids for index in indexes]), first)


def _should_leave(decoder: Decoder, rows: Rows) -> bool:
    num_ended = len(rows) - rows.num_running
    if not decoder.can_prune:
        return num_ended == len(rows)
    return num_ended >= max(1, len(rows) // _LEAVE_SHARE)
