"""From a step's streams to updated adapters: each stream credited by itself, each adapter stepped once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from agon.config import TrainSettings
from agon.errors import DivergedError
from agon.learner.learner import Learner
from agon.learner.report import UpdateReport
from agon.methods.base import BaseMethod, Stream
from agon.train.clock import StepClock
from agon.train.credit import Credited, credit_stream
from agon.train.parity import Parity
from agon.train.state import Progress


class Learned(NamedTuple):
    """A stream, what it earned, and what its adapter's update did."""

    stream: Stream
    credited: Credited
    report: UpdateReport


def credit(stream: Stream, method: BaseMethod, own: TrainSettings) -> Credited:
    """Credit a stream as the settings and the method say."""
    return credit_stream(stream, scale=own.advantage, mask_truncated=own.mask_truncated, signal=method.signal)


def learn(
    learner: Learner,
    method: BaseMethod,
    streams: Sequence[Stream],
    *,
    own: TrainSettings,
    before: Progress,
    parity: Parity | None,
    clock: StepClock,
    run: Path,
) -> list[Learned]:
    """Let every adapter learn from its streams: one update each, over all of its streams together.

    `before` is where the training stood before the step; `parity`, if given, compares engine and learner first.

    Raises:
        DivergedError: a loss or gradient was not finite; the batch is saved in the folder `run`.
        EngineError: engine and learner have parted.
    """
    step = before.completed_steps
    credited = [credit(stream, method, own) for stream in streams]
    reports: dict[int, UpdateReport] = {}
    for adapter in dict.fromkeys(stream.adapter for stream in streams):
        mine = [number for number, stream in enumerate(streams) if stream.adapter == adapter]
        samples = [credited[number].samples for number in mine]
        if parity is not None:
            for of_stream in filter(None, samples):
                parity.check(adapter, of_stream)
        try:
            with clock.learning():
                found = learner.update_together(
                    adapter, samples, step=step, total_steps=own.steps, position=before.position(own)
                )
        except DivergedError as error:
            everything = [sample for of_stream in samples for sample in of_stream]
            path = learner.save_batch(run / f"diverged-step-{step:06d}", everything)
            raise DivergedError(f"{error} (step {step}; the batch is in {path})") from None
        reports |= dict(zip(mine, found, strict=True))
    return [
        Learned(stream, own_credit, reports[number])
        for number, (stream, own_credit) in enumerate(zip(streams, credited, strict=True))
    ]
