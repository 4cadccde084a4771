from __future__ import annotations

import math

import pytest

from agon.methods.base import StepView
from agon.methods.registry import method_named
from agon.rewards.terms import RewardWeights
from agon.train.credit import credit_stream


def _streams(method, matches):
    chosen = method_named(method)
    return chosen.streams([matches], StepView(0, 0, chosen.lineup(0), RewardWeights()))


def test_samples_carry_the_sampled_ids_and_logprobs_untouched(make_match):
    (stream,) = _streams("grpo", [make_match("correct"), make_match("wrong")])
    samples, _ = credit_stream(stream, scale="group_std", mask_truncated=False)
    assert [tuple(sample.prompt_ids) for sample in samples] == [(1, 2), (1, 2)]
    assert [tuple(sample.completion_ids) for sample in samples] == [(10, 11, 12)] * 2
    assert [tuple(sample.behavior_logprobs) for sample in samples] == [(-0.5,) * 3] * 2


def test_advantages_are_the_groups_own(make_match):
    # rewards 2.5 and .5: mean 1.5, sample deviation sqrt(2), plus 1e-4
    (stream,) = _streams("grpo", [make_match("correct"), make_match("wrong")])
    samples, credit = credit_stream(stream, scale="group_std", mask_truncated=False)
    expected = 1.0 / (math.sqrt(2.0) + 1e-4)
    assert [sample.advantage for sample in samples] == pytest.approx([expected, -expected])
    assert credit.dead_group_share == 0.0


def test_the_drafters_results_never_reach_the_cooperative_challengers_advantages(make_match):
    outcomes = ["correct", "wrong", "wrong"]
    first = [make_match(draft, own) for draft, own in zip(["wrong", "wrong", "correct"], outcomes, strict=True)]
    second = [make_match(draft, own) for draft, own in zip(["correct", "wrong", "wrong"], outcomes, strict=True)]
    advantages = [
        [
            sample.advantage
            for sample in credit_stream(_streams("cooperative", m)[1], scale="group_std", mask_truncated=False)[0]
        ]
        for m in (first, second)
    ]
    assert advantages[0] == advantages[1]


def test_a_failed_check_is_in_no_mean_and_in_no_loss(make_match):
    # over the two that were judged: 2.5 and .5, mean 1.5
    (stream,) = _streams("grpo", [make_match("correct"), make_match("error"), make_match("wrong")])
    samples, credit = credit_stream(stream, scale="group_mean", mask_truncated=False)
    assert [sample.advantage for sample in samples] == [1.0, 0.0, -1.0]
    assert [sample.is_masked for sample in samples] == [False, True, False]
    assert credit.num_masked == 1


def test_a_truncated_completion_counts_as_wrong_unless_masked(make_match):
    matches = [make_match("correct"), make_match("truncated", phi=0.0, stop="length"), make_match("wrong", phi=0.0)]
    (stream,) = _streams("grpo", matches)
    kept, _ = credit_stream(stream, scale="group_mean", mask_truncated=False)
    assert [sample.is_masked for sample in kept] == [False, False, False]
    assert kept[1].advantage == kept[2].advantage < 0
    masked, _ = credit_stream(stream, scale="group_mean", mask_truncated=True)
    # without the truncated one: 2.5 and 0, mean 1.25
    assert [sample.advantage for sample in masked] == [1.25, 0.0, -1.25]
    assert [sample.is_masked for sample in masked] == [False, True, False]


def test_a_group_that_is_all_right_teaches_nothing_whatever_the_bonus(make_match):
    # conversion rewards 3.5 and 2.5 differ, but both answers are right (docs/methods.md)
    _, stream = _streams("agon", [make_match("wrong", "correct"), make_match("correct", "correct")])
    assert stream.groups[0].rewards == (3.5, 2.5)
    samples, credit = credit_stream(stream, scale="group_std", mask_truncated=False)
    assert [sample.advantage for sample in samples] == [0.0, 0.0]
    assert credit.dead_group_share == 1.0


def test_the_methods_signal_decides_whether_a_right_group_is_learned_from(make_match):
    # Both right, rivals right: 2.5 and, shorter than its rival, 2.5 + .5.
    matches = [make_match("correct", "correct", tokens=(3, 4)), make_match("correct", "correct", tokens=(3, 2))]
    _, stream = _streams("tie-break", matches)
    assert stream.groups[0].rewards == (2.5, 3.0)
    samples, credit = credit_stream(stream, scale="group_mean", mask_truncated=False, signal="reward")
    assert [sample.advantage for sample in samples] == [-0.25, 0.25]
    assert (credit.num_uniform, credit.num_revived, credit.num_dead_groups) == (1, 1, 0)
    _, credit = credit_stream(stream, scale="group_mean", mask_truncated=False)
    assert (credit.num_uniform, credit.num_revived, credit.num_dead_groups) == (1, 1, 1)


def test_challenges_are_stratified_by_the_drafts_they_read(make_match):
    # Draft wrong: 3.5, .5, mean 2; draft right: 2.5, .5, mean 1.5. Pooled: (2 1.5^2 + 2) / 2 = 3.25.
    pairs = [("wrong", "correct"), ("correct", "correct"), ("wrong", "wrong"), ("correct", "wrong")]
    _, stream = _streams("agon", [make_match(*pair) for pair in pairs])
    samples, _ = credit_stream(stream, scale="stratified", mask_truncated=False)
    deviation = math.sqrt(3.25) + 1e-4
    expected = [1.5 / deviation, 1.0 / deviation, -1.5 / deviation, -1.0 / deviation]
    assert [sample.advantage for sample in samples] == pytest.approx(expected)
