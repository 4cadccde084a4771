from __future__ import annotations

from pathlib import Path

import pytest

from agon.ablation.plan import plan_matrix
from agon.errors import ConfigError
from agon.recipe import read_tables

RECIPES = Path(__file__).parents[3] / "recipes"


def tree(*arms, **matrix):
    return {
        "train": {"steps": 6, "problems_per_step": 4, "group_size": 4},
        "matrix": {"seeds": [0, 1], "arms": list(arms), **matrix},
    }


def plan(recipe, *overrides, methods=None, seeds=None):
    return plan_matrix(recipe, overrides, source="r.toml", name="r", methods=methods, seeds=seeds)


GRPO = {"name": "grpo", "title": "GRPO", "group": "baseline"}
AGON = {"name": "agon"}
BONUS = {"name": "agon-w3", "method": "agon", "set": {"reward.conversion": 3}, "evaluations": ["placebo-a-b"]}


def test_every_arm_has_every_seed_and_its_own_settings():
    planned = plan(tree(GRPO, AGON, BONUS))
    # every arm for the first seed, then for the second
    assert [cell.run for cell in planned.cells] == [
        f"cells/{name}-s{seed}" for seed in (0, 1) for name in ("grpo", "agon", "agon-w3")
    ]
    bonus = planned.cells[5]
    assert (bonus.settings.train.method, bonus.settings.train.seed, bonus.settings.reward.conversion) == (
        "agon",
        1,
        3.0,
    )
    assert bonus.evaluations[-2:] == ("microscope", "placebo-a-b")
    assert [(arm.name, arm.title, arm.method, arm.group, dict(arm.set)) for arm in planned.matrix.arms] == [
        ("grpo", "GRPO", "grpo", "baseline", {}),
        ("agon", "agon", "agon", "exchange", {}),
        ("agon-w3", "agon-w3", "agon", "exchange", {"reward.conversion": 3}),
    ]


def test_the_budget_of_a_cell_is_worked_out():
    budget = plan(tree(GRPO, AGON)).budgets["agon"]
    # 2N = 8 rollouts of each of 4 x 6 problems; both caps are 1,024 tokens
    assert budget.rollouts_per_problem == 8
    assert budget.rollouts == 8 * 24
    assert budget.tokens_at_most == 8 * 24 * 1024


def test_arms_of_equal_settings_share_a_run_and_are_measured_as_both_want():
    same = {"name": "same", "method": "agon", "set": {"reward.conversion": 1.0}, "evaluations": ["placebo-a-b"]}
    planned = plan(tree(AGON, same))
    assert [cell.name for cell in planned.cells] == ["agon-s0", "agon-s1"]
    assert planned.cells[0].arms == ("agon", "same")
    assert planned.cells[0].evaluations[-1] == "placebo-a-b"
    assert [(cell.arm, cell.seed, cell.run) for cell in planned.matrix.cells] == [
        ("agon", 0, "cells/agon-s0"),
        ("agon", 1, "cells/agon-s1"),
        ("same", 0, "cells/agon-s0"),
        ("same", 1, "cells/agon-s1"),
    ]


def test_a_method_brings_its_own_settings():
    settings = plan(tree({"name": "dr_grpo"})).cells[0].settings
    assert (settings.train.loss, settings.train.advantage) == ("dr_grpo", "group_mean")


def test_methods_choose_arms_and_name_further_methods():
    planned = plan(tree(GRPO, BONUS, rivals=["grpo"]), methods=["margin", "agon-w3"], seeds=[7])
    assert [(arm.name, arm.method) for arm in planned.matrix.arms] == [("margin", "margin"), ("agon-w3", "agon")]
    assert planned.matrix.seeds == (7,)
    # a rival that is not run is none
    assert planned.matrix.rivals == ()


def test_one_adapter_is_measured_in_other_protocols_than_a_pair():
    planned = plan(tree(GRPO, AGON, one=["single-a"], pair=["cascade-a-b"], base=["single", "single"]))
    assert [cell.evaluations for cell in planned.cells[:2]] == [("single-a",), ("cascade-a-b",)]
    assert planned.base_evaluations == ("single",)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"train.group_size": 8},
            r"rollouts of each problem \(agon 8, other 16\): give all of them the same train\.group_size",
        ),
        ({"train.steps": 3}, r"equally many problems \(agon 24, other 12\)"),
    ],
)
def test_arms_that_do_not_sample_equally_much_are_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        plan(tree(AGON, {"name": "other", "method": "grpo", "set": changes}))


def test_half_the_steps_with_twice_the_problems_is_the_same_budget():
    other = {"name": "other", "method": "agon", "set": {"train.steps": 3, "train.problems_per_step": 8}}
    assert len(plan(tree(AGON, other)).cells) == 4


@pytest.mark.parametrize(
    "key", ["task.path", "model.base", "evaluation.samples", "train.seed", "train.method", "train"]
)
def test_what_would_make_arms_incomparable_is_not_an_arms_own(key):
    with pytest.raises(ConfigError, match=rf"the arm other sets '{key}', which no arm may"):
        plan(tree({"name": "other", "method": "agon", "set": {key: 1}}))


@pytest.mark.parametrize(
    ("recipe", "overrides", "methods", "words"),
    [
        (tree(), [], None, r"has no \[\[matrix\.arms\]\]: name the methods with --methods"),
        (tree(GRPO), [], ["agno"], r"'agno', which is neither an arm nor a method \(did you mean 'agon'\?\)"),
        (tree(GRPO), [], ["grpo", "grpo"], r"--methods hold grpo twice"),
        (tree(GRPO), ["train.seed=3"], None, r"--set train\.seed was given.*use --seeds"),
        (tree(GRPO), ["train.method=agon"], None, r"--set train\.method was given.*use --methods"),
        (tree(BONUS), ["reward.conversion=2"], None, r"--set reward\.conversion was given, but agon-w3 has its own"),
        (tree({"name": "mine", "method": "mien"}), [], None, r"train\.method is 'mien'"),
        (tree({"name": "dr_grpo", "set": {"train.loss": "dapo"}}), [], None, r"train\.loss is 'dapo', but .*'dr_grpo'"),
        (tree(GRPO, one=["single-b"]), [], None, r"'single-b' needs two adapters, but the arm grpo trains one"),
        (
            tree(GRPO, one=["microscope"]),
            [],
            None,
            r"'microscope' looks at a pair, but the arm grpo trains one adapter",
        ),
        (tree(GRPO, base=["single-a"]), [], None, r"'single-a' names a player, but the base has no adapters"),
        (tree(GRPO, rivals=["cooperative"]), [], None, r"matrix\.rivals names cooperative, which is no arm"),
    ],
)
def test_what_cannot_be_planned_is_named(recipe, overrides, methods, words):
    with pytest.raises(ConfigError, match=words):
        plan(recipe, *overrides, methods=methods)


def test_an_override_holds_for_all_cells_and_for_the_matrix():
    planned = plan(tree(GRPO, AGON), "train.learning_rate=0.5", "matrix.seeds=[4]")
    assert {cell.settings.train.learning_rate for cell in planned.cells} == {0.5}
    assert planned.matrix.seeds == (4,)


@pytest.mark.parametrize(
    ("name", "arms"),
    [
        (
            "matrix-quickstart",
            {"grpo", "grpo-doubled-cap", "self-refine", "cooperative", "agon", "agon-w3", "random-reward"},
        ),
        ("init-study", {"zero", "zero-order", "noise-1e-4", "noise-1e-3", "noise-1e-2", "orthogonal"}),
    ],
)
def test_the_matrices_that_agon_brings_can_be_planned(name, arms):
    planned = plan(read_tables(RECIPES / f"{name}.toml"))
    assert arms <= {arm.name for arm in planned.matrix.arms}
    # no two arms are the same, and all have one budget: 2N = 16 rollouts of each of 16 problems in 90 steps
    assert len(planned.cells) == 3 * len(planned.matrix.arms)
    assert {budget.rollouts for budget in planned.budgets.values()} == {16 * 16 * 90}
