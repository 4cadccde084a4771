"""What the process of one cell does first: train what is left of it."""

from __future__ import annotations

import time
from pathlib import Path

from agon.ablation.cells import is_finished
from agon.ablation.measure import Say
from agon.config import Settings
from agon.errors import RunError
from agon.runs.lock import LOCK_FILE, RunLock
from agon.runs.manifest import folder_kind
from agon.train.run import Watcher, resume_training, run_training

# A cell whose `agon ablate` was killed finishes its step and saves before it lets go of its folder.
_PATIENCE_S = 600.0
_POLL_S = 0.2


def train_cell(settings: Settings, run: Path, *, say: Say) -> bool:
    """Train a cell to its end, or on to it, unless it is finished. Return whether it was asked to stop before.

    Raises:
        AgonError: the training failed.
    """
    wait_until_free(run, say=say)
    if is_finished(run, settings):
        return False
    watcher = Watcher(say=say, on_step=lambda step, row: None)
    begun = folder_kind(run) == "run"
    trained = resume_training(run, settings, watcher) if begun else run_training(settings, run, watcher)
    return trained.was_stopped


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
