from __future__ import annotations

import pytest

from agon.errors import ConfigError
from agon.methods.base import BaseMethod
from agon.methods.registry import method_named
from agon.records import METHODS


@pytest.mark.parametrize("name", METHODS)
def test_every_name_is_a_method_of_that_name(name):
    assert method_named(name).name == name


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("group_size", [2, 8])
@pytest.mark.parametrize("step", [0, 1])
def test_every_method_samples_2n_rollouts_of_a_problem(name, group_size, step):
    method = method_named(name)
    assert method.matches_per_problem(group_size) * method.lineup(step).num_rollouts == 2 * group_size


def test_an_unknown_method_is_refused_with_the_nearest_known_one():
    with pytest.raises(ConfigError, match=r"'dr-grpo'.*did you mean 'dr_grpo'.*module:NAME"):
        method_named("dr-grpo")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_such_module_of_mine:Method", "cannot be imported .*put the module's folder on PYTHONPATH"),
        ("agon.records:NoSuchName", "cannot be imported"),
        ("subprocess:Popen", r"is no agon\.methods\.base\.BaseMethod"),
        (".records:METHODS", "cannot be imported"),
        ("agon.methods.base:BaseMethod", "cannot be made .*abstract class BaseMethod.*mend the class"),
        ("agon.records:METHODS", r"is no agon\.methods\.base\.BaseMethod"),
    ],
)
def test_a_module_without_a_method_is_refused(name, words):
    with pytest.raises(ConfigError, match=words):
        method_named(name)


@pytest.mark.parametrize("name", ["agon.methods.agon:Agon", "agon.methods.grpo:Grpo"])
def test_a_method_is_found_by_its_module(name):
    assert isinstance(method_named(name), BaseMethod)
