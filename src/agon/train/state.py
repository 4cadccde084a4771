"""Save and restore where a training stands: adapters, optimisers, what is used up. Random streams need no saving."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import torch

from agon.config import TrainSettings
from agon.errors import DivergedError, RunError
from agon.learner.learner import Learner
from agon.model.checkpoint import load_checkpoint, save_checkpoint
from agon.model.pair import AdapterPair
from agon.records import ADAPTERS
from agon.runs.checkpoints import checkpoint_step
from agon.runs.folder import RunFolder
from agon.runs.space import require_free_bytes

# What a checkpoint calls the size of micro-batches that were halved.
_TOKENS = "tokens_per_microbatch"
# What a file of tensors says of each: its name, shape and place.
_HEADER_BYTES = 200
# Configurations, the state and the marker.
_SMALL_FILES = 20_000


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a training is: steps taken, and what of its budget is used up.

    `problems_consumed` is also the place in the order of problems where the next step goes on. Most methods consume
    `train.problems_per_step` a step; one that draws further problems consumes more. `rollouts_discarded` are those of
    `rollouts_generated` that came from problems drawn in vain.
    """

    completed_steps: int = 0
    problems_consumed: int = 0
    rollouts_generated: int = 0
    rollouts_discarded: int = 0

    @classmethod
    def from_json(cls, tree: dict[str, Any], own: TrainSettings) -> Self:
        """Read what a checkpoint stored. One from before budgets were counted stored the steps alone, which told everything."""
        steps = int(tree["completed_steps"])
        consumed = int(tree.get("problems_consumed", steps * own.problems_per_step))
        generated = int(tree.get("rollouts_generated", consumed * 2 * own.group_size))
        return cls(steps, consumed, generated, int(tree.get("rollouts_discarded", 0)))

    def left(self, own: TrainSettings) -> int:
        """Return how many problems may still be sampled from. With none left the run is over."""
        return max(own.steps * own.problems_per_step - self.problems_consumed, 0)

    def position(self, own: TrainSettings) -> float:
        """Return where in the schedule the next step stands, in steps of `problems_per_step` problems."""
        return self.problems_consumed / own.problems_per_step


START = Progress()
"""Nothing is done yet."""


def save_state(
    run: RunFolder, pair: AdapterPair, learner: Learner, progress: Progress, *, is_last: bool, keep: int
) -> None:
    """Save a checkpoint, whole or not at all, and remove all but the newest `keep`.

    Raises:
        DivergedError: an adapter holds a number that is not finite; nothing is saved.
        RunError: the disk has no room for it; nothing is saved.
    """
    require_finite(pair, progress.completed_steps)
    require_free_bytes(
        run.path,
        checkpoint_bytes(pair, num_frozen=len(pair.frozen_names)),
        remedy="the checkpoint was not begun, and what was saved before is whole; free some space, then continue with --resume",
    )
    stored = asdict(progress)
    if learner.runner.halving is not None:
        stored[_TOKENS] = learner.runner.halving.after
    with run.checkpoint(progress.completed_steps, is_last=is_last) as folder:
        save_checkpoint(folder, pair, optimizers=learner.state(), progress=stored)
    run.prune_checkpoints(keep)


def require_finite(pair: AdapterPair, completed_steps: int) -> None:
    """Check that both adapters can be computed with.

    Raises:
        DivergedError: one holds a number that is not finite.
    """
    for name in ADAPTERS:
        if not bool(torch.stack([matrix.isfinite().all() for matrix in pair.parameters(name)]).all()):
            raise DivergedError(
                f"adapter {name} holds numbers that are not finite after {completed_steps} steps, and was not saved: go on from the "
                "checkpoint before, or train again with a lower train.learning_rate"
            )


def restore_state(checkpoint: Path, pair: AdapterPair, learner: Learner, own: TrainSettings) -> Progress:
    """Fill adapters and optimisers from a checkpoint, bit for bit, and return how far the training was.

    Micro-batches that had been halved for want of memory are so from the start.

    Raises:
        RunError, ModelError: the checkpoint is damaged or belongs to another run.
    """
    state = load_checkpoint(checkpoint, pair)
    learner.load_state(state.optimizers)
    try:
        progress = Progress.from_json(dict(state.progress), own)
        if _TOKENS in state.progress:
            learner.runner.halve_to(int(state.progress[_TOKENS]))
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(
            f"{checkpoint} does not say how far the run was ({error!r}): remove it, and resume from the one before"
        ) from None
    if progress.completed_steps != checkpoint_step(checkpoint):
        raise RunError(
            f"{checkpoint} says it was saved after step {progress.completed_steps}: remove it, and resume from the one before"
        )
    return progress


def checkpoint_bytes(pair: AdapterPair, *, num_frozen: int = 0) -> int:
    """Return the size of a checkpoint of a pair, at most."""
    parameters = pair.parameters("A")
    num_numbers = sum(parameter.numel() for parameter in parameters)
    return stored_bytes(num_numbers, num_tensors=len(parameters), num_frozen=num_frozen)


def stored_bytes(num_parameters: int, *, num_tensors: int, num_frozen: int, num_learning: int = 2) -> int:
    """Return the size of a checkpoint, at most: both adapters in float32, two moments and a count of each that learns, and frozen copies."""
    copies = 2 + 2 * num_learning + num_frozen
    return copies * (4 * num_parameters + _HEADER_BYTES * num_tensors) + 2 * _HEADER_BYTES * num_tensors + _SMALL_FILES
