"""Save and restore where a training stands: adapters, optimisers, completed steps. Random streams need no saving."""

from __future__ import annotations

from pathlib import Path

from agon.errors import RunError
from agon.learner.learner import Learner
from agon.model.checkpoint import load_checkpoint, save_checkpoint
from agon.model.pair import AdapterPair
from agon.runs.checkpoints import checkpoint_step
from agon.runs.folder import RunFolder


def save_state(
    run: RunFolder, pair: AdapterPair, learner: Learner, *, completed_steps: int, is_last: bool, keep: int
) -> None:
    """Save a checkpoint after `completed_steps` steps, whole or not at all, and remove all but the newest `keep`."""
    with run.checkpoint(completed_steps, is_last=is_last) as folder:
        save_checkpoint(folder, pair, optimizers=learner.state(), progress={"completed_steps": completed_steps})
    run.prune_checkpoints(keep)


def restore_state(checkpoint: Path, pair: AdapterPair, learner: Learner) -> int:
    """Fill adapters and optimisers from a checkpoint, bit for bit, and return how many steps it had completed.

    Raises:
        RunError, ModelError: the checkpoint is damaged or belongs to another run.
    """
    state = load_checkpoint(checkpoint, pair)
    learner.load_state(state.optimizers)
    completed = int(state.progress["completed_steps"])
    if completed != checkpoint_step(checkpoint):
        raise RunError(
            f"{checkpoint} says it was saved after step {completed}: remove it, and resume from the one before"
        )
    return completed


def checkpoint_bytes(pair: AdapterPair) -> int:
    """Return the size of a checkpoint: both adapters in float32, and two moments of each."""
    return sum(3 * 4 * parameter.numel() for name in ("A", "B") for parameter in pair.parameters(name))
