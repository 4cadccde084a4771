"""What the checkers that ask processes share: a pool that is there once it is needed, and the verdict on an answer."""

from __future__ import annotations

import threading
from collections.abc import Callable

from agon.records import Verdict
from agon.verifiers.pool import Reply, WorkerPool


class LazyPool:
    """Opens a pool when it is first needed, and another one when it is needed after it was closed. Safe from any thread."""

    def __init__(self, open_pool: Callable[[], WorkerPool]) -> None:
        self._open_pool = open_pool
        self._pool: WorkerPool | None = None
        self._lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether there is a pool."""
        return self._pool is not None

    def get(self) -> WorkerPool:
        """Return the pool, opened if there is none."""
        with self._lock:
            if self._pool is None:
                self._pool = self._open_pool()
            return self._pool

    def close(self) -> None:
        """End the processes, if there are any."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()


def verdict_on_answer(reply: Reply, answer: str, gold: str) -> Verdict:
    """Turn what a process said of an answer into its verdict; what is none of the outcomes of an answer is the checker's own failure."""
    match reply.outcome:
        case "correct":
            return Verdict("correct", 1.0, reply.reason, answer, gold)
        case "wrong" | "unparsed" | "timeout" as outcome:
            return Verdict(outcome, 0.0, reply.reason, answer, gold)
        case _:
            return Verdict("error", 0.0, reply.reason, answer, gold)
