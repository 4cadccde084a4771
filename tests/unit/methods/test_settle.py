from __future__ import annotations

import sys
import tomllib
from types import MappingProxyType, ModuleType

import pytest

from agon.errors import ConfigError
from agon.methods.grpo import Grpo
from agon.methods.settle import settled
from agon.recipe import describe_settings, settings_from


class Clipped(Grpo):
    name = "clipped"
    fixed = MappingProxyType({"loss": "cispo", "minibatches": 4})


class Mistaken(Grpo):
    name = "mistaken"
    fixed = MappingProxyType({"los": "cispo"})


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    module = ModuleType("my_methods")
    module.Clipped, module.Mistaken = Clipped, Mistaken  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_methods", module)


def _settings(*overrides, **train):
    return settings_from({"train": {"method": "my_methods:Clipped", **train}}, overrides, source="mine.toml")


def test_what_the_recipe_left_open_takes_the_methods_value_and_nothing_else_changes():
    before = _settings(seed=3)
    after = settled(before)
    assert (after.train.loss, after.train.minibatches) == ("cispo", 4)
    assert after.model_copy(update={"train": before.train}) == before
    assert after.train.model_copy(update={"loss": before.train.loss, "minibatches": 1}) == before.train


def test_a_method_without_a_choice_of_its_own_leaves_settings_alone():
    plain = settings_from({"train": {"method": "grpo", "loss": "gspo"}})
    assert settled(plain) is plain


@pytest.mark.parametrize("settings", [lambda: _settings(loss="dapo"), lambda: _settings("train.loss=dapo")])
def test_another_value_in_the_recipe_or_by_set_is_refused_naming_both(settings):
    with pytest.raises(
        ConfigError,
        match=r"train\.loss is 'dapo', but the method 'my_methods:Clipped' stands for 'cispo': leave the key out",
    ):
        settled(settings())


def test_the_same_value_in_the_recipe_is_no_contradiction():
    assert settled(_settings(loss="cispo")).train.loss == "cispo"


def test_settled_settings_come_back_as_they_are_from_json_and_toml():
    once = settled(_settings())
    assert settled(once) == once
    assert settled(settings_from(once.model_dump(mode="json"))) == once
    assert settled(settings_from(tomllib.loads(describe_settings(once)))) == once


def test_values_that_do_not_fit_the_rest_are_refused():
    # 3 problems x 2 = 6 rollouts a stream, not divisible by the method's 4 minibatches.
    with pytest.raises(ConfigError, match=r"train\.method 'my_methods:Clipped': .*train\.minibatches is 4"):
        settled(_settings(problems_per_step=3, group_size=2))


def test_a_key_that_is_no_setting_is_refused():
    with pytest.raises(ConfigError, match=r"unknown key train\.los \(did you mean"):
        settled(settings_from({"train": {"method": "my_methods:Mistaken"}}))
