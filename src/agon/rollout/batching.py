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


def decode(decoder: Decoder, rows: Rows, requests: Sequence[Request], *, max_rows: int) -> Iterator[Ended]:
    """Sample every request to its end and yield each as it ends; `Ended.key` counts `requests`."""
    queue = Queue(requests, max_bundle=max(1, max_rows // _JOIN_SHARE))
    while queue or len(rows):
        if queue and _may_join(decoder, rows, max_rows):
            indexes = queue.take(max_rows - len(rows), is_one_length=not decoder.can_prune)
            yield from join(decoder, rows, [(index, requests[index]) for index in indexes])
        else:
            yield from advance(decoder, rows)
        close_up(decoder, rows)


def join(decoder: Decoder, rows: Rows, requests: Sequence[tuple[int, Request]]) -> list[Ended]:
    """Let requests, shortest prompt first and equal ones side by side, join with their first token; return those that end with it."""
    first = len(rows)
    with torch.inference_mode():
        rows.join(requests)
        return rows.advance(decoder.admit([request.prompt_ids for _, request in requests]), first)


def advance(decoder: Decoder, rows: Rows) -> list[Ended]:
    """Sample the next token of every row, and return those that end with it."""
    with torch.inference_mode():
        return rows.advance(decoder.step(rows.newest, rows.positions))


def close_up(decoder: Decoder, rows: Rows, *, least_share: int = _LEAVE_SHARE) -> None:
    """Take the rows that have ended out, where they can be taken out and are at least one in `least_share`."""
    least = len(rows) // least_share if decoder.can_prune else len(rows)
    if len(rows) - rows.num_running >= max(1, least):
        with torch.inference_mode():
            decoder.select(rows.leave())


def _may_join(decoder: Decoder, rows: Rows, max_rows: int) -> bool:
    return not len(rows) or (decoder.can_prune and max_rows - len(rows) >= max(1, max_rows // _JOIN_SHARE))
