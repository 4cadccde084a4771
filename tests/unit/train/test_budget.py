from __future__ import annotations

import pytest

from agon.cli.common import settings_of
from agon.train.budget import describe_budget, plan_budget


@pytest.mark.parametrize("method", ["grpo", "agon", "frozen-opponent", "self-refine", "dapo"])
def test_every_method_has_the_same_rollouts_whatever_it_learns_from(method):
    budget = plan_budget(settings_of("quickstart-agon", [f"train.method={method}"]))
    # 2 x 8 rollouts of 16 problems in 90 steps, 44 tokens each at most
    assert (budget.rollouts_per_problem, budget.rollouts_per_step, budget.rollouts) == (16, 256, 23_040)
    assert budget.tokens_at_most == 23_040 * 44


def test_a_method_that_draws_further_problems_takes_at_least_so_many_a_step():
    said = {
        method: describe_budget(plan_budget(settings_of("quickstart-agon", [f"train.method={method}"])))
        for method in ("grpo", "dapo")
    }
    assert "16 rollouts a problem, 256 a step, 23,040 in all" in said["grpo"]
    assert "16 rollouts a problem, at least 256 a step, 23,040 in all" in said["dapo"]
