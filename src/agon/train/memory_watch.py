"""Memory that is nearly used up while a run trains, and micro-batches that were halved for want of it."""

from __future__ import annotations

from collections.abc import Callable

import torch

from agon.audit.findings import readable
from agon.audit.hardware import Memory, memory_bytes
from agon.config import AlarmSettings
from agon.learner.runner import Runner
from agon.model.memory import free_bytes_at_peak
from agon.train.alarms import RunAlarm

HALVED = "halved-micro-batch"
LOW = "low-memory"


class MemoryWatch:
    """Looks at the memory of the machine, of the CUDA device and of the learner after every step."""

    def __init__(
        self, runner: Runner, own: AlarmSettings, *, device: torch.device, look: Callable[[], Memory] = memory_bytes
    ) -> None:
        """Watch what `runner` had to do, and what `look` and the device say; `own` has the share that is too little."""
        self._runner = runner
        self._own = own
        self._device = device
        self._look = look

    def see(self, step: int) -> list[RunAlarm]:
        """Return an alarm for each memory that is nearly used up, and for micro-batches that have been halved."""
        alarms = [] if self._own.low_memory == "off" else self._low(step)
        halving = self._runner.halving
        if halving is not None:
            message = (
                f"a micro-batch did not fit the GPU: micro-batches have {halving.after:,} tokens from here on, not {halving.before:,}, and "
                "the step was begun anew; its gradient is the same but for rounding. Lower train.tokens_per_microbatch in the next run"
            )
            alarms.append(RunAlarm(HALVED, step, since=step, about="the run", mode="warn", message=message))
        return alarms

    def _low(self, step: int) -> list[RunAlarm]:
        free = self._look()
        found = [self._judged(step, free, about="the machine", remedy="end other programs, or lower rollout.max_rows")]
        if self._device.type == "cuda":
            left = Memory(torch.cuda.mem_get_info(self._device)[1], free_bytes_at_peak(self._device))
            remedy = (
                "lower train.tokens_per_microbatch, rollout.max_rows or rollout.engine_memory_share in the next run"
            )
            found.append(self._judged(step, left, about="the GPU", remedy=remedy))
        return [alarm for alarm in found if alarm is not None]

    def _judged(self, step: int, memory: Memory, *, about: str, remedy: str) -> RunAlarm | None:
        share, limit = memory.free / memory.total, self._own.low_memory_share
        if share > limit:
            return None
        return RunAlarm(
            LOW,
            step,
            since=step,
            about=about,
            mode=self._own.low_memory,
            message=f"{readable(memory.free)} of {readable(memory.total)} are free ({share:.2g}, limit {limit:g}): {remedy}",
            metric="share of memory that is free",
            value=share,
            threshold=limit,
        )
