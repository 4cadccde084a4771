from __future__ import annotations

from dataclasses import asdict

import pytest
import torch

from agon.config import TrainSettings
from agon.errors import DivergedError
from agon.train.state import Progress, require_finite

OWN = TrainSettings(steps=5, problems_per_step=4, group_size=2)


def test_progress_comes_back_as_it_was_stored():
    progress = Progress(3, 17, 68, 20)
    assert Progress.from_json(asdict(progress), OWN) == progress


def test_a_checkpoint_that_stored_its_steps_alone_had_used_up_that_many_times_a_step():
    # 3 steps of 4 problems of 2N = 4 rollouts
    assert Progress.from_json({"completed_steps": 3}, OWN) == Progress(3, 12, 48, 0)


def test_a_run_is_over_when_its_problems_are_used_up_whatever_its_steps():
    assert [Progress(2, consumed).left(OWN) for consumed in (0, 17, 20, 23)] == [20, 3, 0, 0]


def test_the_place_in_the_schedule_is_the_share_of_problems_used_up():
    assert Progress(3, 12).position(OWN) == 3.0
    assert Progress(2, 14).position(OWN) == 3.5


class Pair:
    """Two adapters of two matrices each."""

    def __init__(self, **values: float) -> None:
        self._matrices = {name: [torch.zeros(2, 2), torch.full((3,), values.get(name, 0.5))] for name in ("A", "B")}

    def parameters(self, name):
        return self._matrices[name]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_an_adapter_that_is_not_finite_is_not_saved(value):
    require_finite(Pair(B=1e30), 20)
    with pytest.raises(
        DivergedError, match="adapter B holds numbers that are not finite after 20 steps, and was not saved"
    ):
        require_finite(Pair(B=value), 20)
