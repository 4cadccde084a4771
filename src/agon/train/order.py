"""Which problems a step trains on: a function of a seed and of the place in the order alone, the same for every method."""

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
    """Return the problems of one step, where every step takes `per_step`.

    Raises:
        ConfigError: a step wants more problems than there are.
    """
    return problems_from(problems, step * per_step, count=per_step, seed=seed)


def problems_from(problems: Sequence[Problem], first: int, *, count: int, seed: int) -> list[Problem]:
    """Return `count` problems from place `first` of the order on: every epoch is a fresh shuffle, and a step may reach over its end.

    Raises:
        ConfigError: more problems are wanted than there are.
    """
    if count > len(problems):
        raise ConfigError(
            f"train.problems_per_step is {count}, but the task has {len(problems)} training problems: "
            f"set it to {len(problems)} or less"
        )
    places = range(first, first + count)
    orders = {epoch: _order(len(problems), epoch, seed) for epoch in {place // len(problems) for place in places}}
    return [problems[orders[place // len(problems)][place % len(problems)]] for place in places]


def _order(count: int, epoch: int, seed: int) -> list[int]:
    return numpy_rng(seed, "order", epoch).permutation(count).tolist()
