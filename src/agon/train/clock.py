"""Where a step's time goes, for timings.jsonl."""

from __future__ import annotations

import time
from typing import Any

from agon.match.session import Session
from agon.rollout.vllm_engine import VllmEngine


class StepClock:
    """Measures one step, from its making on.

    Of the seconds spent playing, `generate_s` are those in which the engine samples, `sync_s` those in which it takes an adapter over and
    is checked, and `verify_wait_s` those in which sampling is over and verdicts are still missing. What is left of the step
    after playing and learning is for credit, metrics and prompts.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._started = time.perf_counter()
        self._played = self._started
        self._before = self._spent()

    def end_play(self) -> None:
        """Note that the matches are played."""
        self._played = time.perf_counter()

    def line(self, step: int) -> dict[str, Any]:
        """Return the step's line. Units: seconds."""
        ended = time.perf_counter()
        engine, wait, sync = (now - then for now, then in zip(self._spent(), self._before, strict=True))
        seconds = {
            "play_s": self._played - self._started,
            "generate_s": engine - sync,
            "sync_s": sync,
            "verify_wait_s": wait,
            "learn_s": ended - self._played,
            "total_s": ended - self._started,
        }
        return {"step": step, **{name: round(value, 4) for name, value in seconds.items()}}

    def _spent(self) -> tuple[float, float, float]:
        engine = self._session.engine
        sync = engine.load_seconds if isinstance(engine, VllmEngine) else 0.0
        return self._session.engine_seconds, self._session.verify_wait_seconds, sync
