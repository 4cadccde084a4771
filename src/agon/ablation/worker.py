"""What the process of one cell does: train what is left of it, then measure what is missing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from agon.ablation.cells import is_finished
from agon.ablation.measure import Say, measure_run
from agon.config import Settings
from agon.errors import RunError
from agon.runs.lock import LOCK_FILE, RunLock
from agon.runs.manifest import folder_kind
from agon.train.run import Watcher, resume_training, run_training

# A cell whose `agon ablate` was killed finishes its step and saves before it lets go of its folder.
_PATIENCE_S = 600.0
_POLL_S = 0.2


def work_on_cell(settings: Settings, run: Path, labels: Sequence[str], *, say: Say) -> bool:
    """Train a cell to its end, or on to it, and make its evaluations. Return whether it was asked to stop before.

    Raises:
        AgonError: the training or an evaluation failed.
    """
    wait_until_free(run, say=say)
    if not is_finished(run, settings):
        watcher = Watcher(say=say, on_step=lambda step, row: None)
        begun = folder_kind(run) == "run"
        trained = resume_training(run, settings, watcher) if begun else run_training(settings, run, watcher)
        if trained.was_stopped:
            return True
    measure_run(run, labels, asked=settings, say=say)
    return False


def wait_until_free(run: Path, *, say: Say, patience_s: float = _PATIENCE_S) -> None:
    """Wait until no other process writes into a run folder.

    Raises:
        RunError: one still does after `patience_s` seconds; names it.
    """
    if not (run / LOCK_FILE).exists():
        return
    deadline = time.monotonic() + patience_s
    was_told = False
    while True:
        try:
            RunLock(run).release()
            return
        except RunError as error:
            if time.monotonic() >= deadline:
                raise
            if not was_told:
                say(f"waiting: {error}")
                was_told = True
        time.sleep(_POLL_S)
