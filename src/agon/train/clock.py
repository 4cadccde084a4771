"""Where a step's time goes, and the memory it took, for timings.jsonl."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from agon.match.session import Session
from agon.model.memory import forget_gpu_peak, peak_bytes
from agon.records import Match
from agon.rollout.vllm_engine import VllmEngine


class StepClock:
    """Measures one step, from its making on, and writes a line of the names in `agon.metrics.TIMINGS`.

    The parts `generate_s`, `sync_s`, `verify_wait_s`, `learn_s` and `save_s` do not overlap; `other_s` is what is left of the step.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._started = time.perf_counter()
        self._before = self._spent()
        self._learned = 0.0
        self._saved = 0.0
        self._num_tokens = 0
        forget_gpu_peak()

    def count(self, matches: Sequence[Sequence[Match]]) -> None:
        """Note the tokens that were sampled for these matches."""
        self._num_tokens += sum(
            attempt.completion.num_tokens
            for of_problem in matches
            for match in of_problem
            for attempt in match.attempts
        )

    @contextmanager
    def learning(self) -> Generator[None]:
        """Count the time in the block as learning."""
        started = time.perf_counter()
        yield
        self._learned += time.perf_counter() - started

    @contextmanager
    def saving(self) -> Generator[None]:
        """Count the time in the block as writing matches and checkpoints."""
        started = time.perf_counter()
        yield
        self._saved += time.perf_counter() - started

    def line(self, step: int) -> dict[str, Any]:
        """Return the step's line."""
        total = time.perf_counter() - self._started
        engine, wait, sync = (now - then for now, then in zip(self._spent(), self._before, strict=True))
        parts = {
            "generate_s": engine - sync,
            "sync_s": sync,
            "verify_wait_s": wait,
            "learn_s": self._learned,
            "save_s": self._saved,
        }
        seconds = {**parts, "other_s": total - sum(parts.values()), "total_s": total}
        peak = peak_bytes()
        return {
            "step": step,
            **{name: round(value, 4) for name, value in seconds.items()},
            "sampled_tokens": self._num_tokens,
            "memory_peak_bytes": peak.memory,
            "gpu_peak_bytes": peak.gpu,
        }

    def _spent(self) -> tuple[float, float, float]:
        engine = self._session.engine
        sync = engine.load_seconds if isinstance(engine, VllmEngine) else 0.0
        return self._session.engine_seconds, self._session.verify_wait_seconds, sync
