"""Which problems a step trains on: a function of a seed and the step alone, the same for every method."""

from __future__ import annotations

from collections.abc import Sequence

from agon.config import TrainSettings
from agon.errors import ConfigError
from agon.records import Problem
from agon.seeding import numpy_rng


def order_seed(settings: TrainSettings) -> int:
    """Return the seed that decides the order of problems: the run's own, unless another is set."""
    return settings.seed if settings.order_seed is None else settings.order_seed


def problems_of_step(problems: Sequence[Problem], step: int, *, per_step: int, seed: int) -> list[Problem]:
    """Return the problems of one step: every epoch is a fresh shuffle, and a step may reach over its end.

    Raises:
        ConfigError: a step wants more problems than there are.
    """
    if per_step > len(problems):
        raise ConfigError(
            f"train.problems_per_step is {per_step}, but the task has {len(problems)} training problems: "
            f"set it to {len(problems)} or less"
        )
    places = range(step * per_step, (step + 1) * per_step)
    orders = {epoch: _order(len(problems), epoch, seed) for epoch in {place // len(problems) for place in places}}
    return [problems[orders[place // len(problems)][place % len(problems)]] for place in places]


def _order(count: int, epoch: int, seed: int) -> list[int]:
    return numpy_rng(seed, "order", epoch).permutation(count).tolist()
