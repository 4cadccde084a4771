import importlib.util
import sys

import pytest

from agon.config import TaskSettings
from agon.errors import ConfigError, DataError
from agon.gym_families import FAMILIES, LEFT_OUT
from agon.recipe import settings_from
from agon.tasks import gym
from agon.tasks.gym import open_gym
from agon.tasks.loader import load_task

needs_package = pytest.mark.skipif(
    importlib.util.find_spec("reasoning_gym") is None,
    reason="reasoning-gym is an extra: one of its dependencies (pycosat) has to be compiled",
)


def load(family, **settings):
    return load_task(TaskSettings(name=f"reasoning-gym/{family}", **settings))


def everything(data):
    return [problem for split in data.splits.values() for problem in split]


@needs_package
def test_a_family_is_generated_into_three_splits_by_content():
    data = load("gcd", num_generated=60)
    problems = everything(data)
    assert len(problems) + data.num_duplicates == 60
    assert min(len(split) for split in data.splits.values()) >= 1
    assert {problem.verifier for problem in problems} == {"reasoning-gym"}
    first = next(problem for problem in problems if problem.details["index"] == 0)
    assert first.details == {"family": "gcd", "size": 60, "seed": 0, "index": 0}
    assert "Greatest Common Divisor" in first.question
    assert data.source == "reasoning-gym/gcd (60 problems, seed 0)"


@needs_package
def test_problems_are_a_function_of_the_seed():
    once, again, other = (
        load("isomorphic_strings", num_generated=20, generator_seed=s, drop_yes_no=False) for s in (1, 1, 2)
    )
    assert everything(once) == everything(again)
    assert not {problem.id for problem in everything(once)} & {problem.id for problem in everything(other)}


@needs_package
def test_a_level_that_is_one_number_can_be_filtered():
    # ab has a difficulty of {"length": 10}
    assert {problem.level for problem in everything(load("ab", num_generated=10))} == {10.0}
    assert {problem.level for problem in everything(load("gcd", num_generated=10))} == {None}


@needs_package
def test_signs_of_a_gsm8k_answer_inside_a_gold_are_kept():
    # golds of ab hold '#', and four of them in a row would be taken for the mark before a final number
    assert all(
        problem.gold.count("#") == len(problem.gold.split()) for problem in everything(load("ab", num_generated=30))
    )


def test_no_family_is_both_kept_and_left_out():
    assert not set(FAMILIES) & set(LEFT_OUT)
    assert len(FAMILIES) == len(set(FAMILIES))
    assert all(LEFT_OUT.values())


@needs_package
def test_every_family_of_the_package_is_decided_about():
    from reasoning_gym.factory import DATASETS

    assert set(FAMILIES) | set(LEFT_OUT) == set(DATASETS)


def test_an_unknown_family_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match=r"'reasoning-gym/gcdd', which is not known \(did you mean 'gcd'\?\)"):
        settings_from({"task": {"name": "reasoning-gym/gcdd"}}, [], source="test")


def test_a_family_that_is_left_out_is_refused_with_the_reason():
    with pytest.raises(ConfigError, match=r"'reasoning-gym/countdown', which is left out \(.*evaluates"):
        settings_from({"task": {"name": "reasoning-gym/countdown"}}, [], source="test")


def test_settings_that_would_do_nothing_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"task\.path is 'x\.jsonl', but reasoning-gym/gcd is generated"):
        load("gcd", path="x.jsonl")
    with pytest.raises(ConfigError, match=r"task\.num_generated is 5, but countdown-lite is generated"):
        load_task(TaskSettings(num_generated=5))
    path = tmp_path / "x.jsonl"
    path.write_text('{"question": "x", "answer": 1}')
    with pytest.raises(ConfigError, match=r"task\.generator_seed is 3, but custom is not generated: "):
        load_task(TaskSettings(name="custom", path=str(path), generator_seed=3))


def test_without_the_package_the_remedy_is_told(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'agon-rl\[reasoning-gym\]'"):
        open_gym("reasoning-gym/gcd", num_problems=1, seed=0)


@needs_package
def test_a_generator_that_does_not_end_is_killed(monkeypatch):
    monkeypatch.setattr(gym, "TIMEOUT_S", 0.01)
    with pytest.raises(DataError, match=r"took longer than 0\.01 s: lower task\.num_generated"):
        open_gym("reasoning-gym/gcd", num_problems=1, seed=0)


@needs_package
def test_generating_loads_nothing_into_this_process(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "reasoning_gym"]:
        monkeypatch.delitem(sys.modules, name)
    load("gcd", num_generated=2, dev_share=0.0, test_share=0.0)
    assert "reasoning_gym" not in sys.modules
