from __future__ import annotations

from collections import Counter

import pytest

from agon.config import TrainSettings
from agon.errors import ConfigError
from agon.records import Problem
from agon.train.order import order_seed, problems_from, problems_of_step

PROBLEMS = [Problem(id=str(i), question=f"q{i}", gold="1", task="t", verifier="exact") for i in range(10)]


def _ids(step, per_step=4, seed=0):
    return [problem.id for problem in problems_of_step(PROBLEMS, step, per_step=per_step, seed=seed)]


def test_every_epoch_uses_each_problem_once():
    # 5 steps of 4 are two epochs of 10, the third step reaching over the border
    served = [name for step in range(5) for name in _ids(step)]
    assert Counter(served[:10]) == Counter(served[10:]) == Counter(str(i) for i in range(10))


def test_epochs_are_shuffled_apart():
    served = [name for step in range(5) for name in _ids(step)]
    assert served[:10] != served[10:]


def test_order_is_a_function_of_seed_and_step_alone():
    assert _ids(3) == _ids(3)
    assert [_ids(step) for step in range(5)] != [_ids(step, seed=1) for step in range(5)]


def test_another_order_can_be_asked_for_at_the_same_seed():
    assert order_seed(TrainSettings(seed=3)) == 3
    assert order_seed(TrainSettings(seed=3, order_seed=0)) == 0


def test_a_step_wider_than_the_task_is_refused():
    with pytest.raises(ConfigError, match=r"problems_per_step is 11.*10 training problems"):
        _ids(0, per_step=11)


def test_a_step_is_a_stretch_of_the_order_and_stretches_of_any_length_add_up_to_it():
    whole = [problem.id for problem in problems_from(PROBLEMS, 8, count=7, seed=0)]
    parts = [*problems_from(PROBLEMS, 8, count=1, seed=0), *problems_from(PROBLEMS, 9, count=6, seed=0)]
    assert [problem.id for problem in parts] == whole
    assert whole[:4] == _ids(2)
    assert problems_from(PROBLEMS, 3, count=0, seed=0) == []
