from __future__ import annotations

import pytest

from agon.errors import ConfigError
from agon.methods.base import StepView
from agon.methods.registry import method_named
from agon.records import METHODS
from agon.rewards.terms import RewardWeights
from agon.train.loop import check_budget


def _streams(method, matches):
    chosen = method_named(method)
    return chosen.streams([matches], StepView(0, 0, chosen.lineup(0), RewardWeights()))


@pytest.mark.parametrize("method", METHODS)
def test_two_n_rollouts_a_problem_pass(make_match, method):
    count = method_named(method).matches_per_problem(4)
    challenge = None if method == "grpo" else "wrong"
    check_budget(_streams(method, [make_match("wrong", challenge)] * count), num_problems=1, group_size=4)


@pytest.mark.parametrize("count", [7, 9])
def test_any_other_number_of_rollouts_stops_the_run(make_match, count):
    with pytest.raises(ConfigError, match=rf"sampled {count} rollouts.*2N = 8 each \(8\)"):
        check_budget(_streams("grpo", [make_match("wrong")] * count), num_problems=1, group_size=4)
