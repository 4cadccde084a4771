from __future__ import annotations

import pytest

from agon.ablation.matrix import flat_settings, matrix_table
from agon.errors import ConfigError


def test_a_recipe_without_a_matrix_has_three_seeds_and_no_arms():
    table = matrix_table({}, source="r.toml")
    assert table.seeds == (0, 1, 2)
    assert table.arms == ()


def test_what_an_arm_sets_may_be_written_with_dots_or_as_tables():
    assert flat_settings({"reward.conversion": 3.0, "train": {"advantage": "group_mean"}}) == {
        "reward.conversion": 3.0,
        "train.advantage": "group_mean",
    }


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"sedes": [0]}, r"r\.toml: unknown key matrix\.sedes \(did you mean 'seeds'\?\)"),
        ({"seeds": ["0"]}, r"matrix\.seeds\[0\] is '0'"),
        ({"seeds": [-1]}, r"matrix\.seeds\[0\] is -1"),
        ({"seeds": []}, r"matrix\.seeds is empty"),
        ({"seeds": [1, 1]}, r"matrix\.seeds hold 1 twice"),
        ({"arms": [{"method": "agon"}]}, r"matrix\.arms\[0\]\.name is missing"),
        ({"arms": [{"name": "a", "sets": {}}]}, r"unknown key matrix\.arms\[0\]\.sets \(did you mean 'set'\?\)"),
        ({"arms": [{"name": "a", "group": "other"}]}, r"matrix\.arms\[0\]\.group is 'other'"),
        ({"arms": [{"name": "a"}, {"name": "a"}]}, r"names of matrix\.arms hold a twice"),
        ({"arms": [{"name": "../a"}]}, r"an arm is named '\.\./a'"),
        ({"arms": [{"name": "hf_" + "a1B2" * 9}]}, r"an arm is named"),
        ({"arms": [{"name": "base"}]}, r"an arm is named 'base'"),
    ],
)
def test_what_cannot_be_used_is_named(tree, words):
    with pytest.raises(ConfigError, match=words):
        matrix_table(tree, source="r.toml")
