"""Methods with one player: grouping, the losses they stand for, rejection fine-tuning, length terms."""

from __future__ import annotations

import math

import pytest

from agon.config import Settings, TrainSettings
from agon.errors import ConfigError
from agon.learner.advantages import has_signal
from agon.learner.losses import LOSSES
from agon.methods.registry import method_named
from agon.methods.settle import settled
from agon.rewards.terms import RewardWeights
from agon.train.credit import credit_stream, reward_group


def test_grpo_makes_one_group_of_2n_for_one_adapter(make_draft, streams_of):
    (stream,) = streams_of("grpo", [make_draft(i % 2) for i in range(4)], step=3)
    assert stream.adapter == "A"
    assert stream.groups[0].rewards == (0.5, 2.5, 0.5, 2.5)
    assert stream.num_rollouts == 4


def test_two_groups_split_a_problems_drafts_in_half(make_draft, streams_of):
    (stream,) = streams_of("grpo-two-groups", [make_draft(outcome) for outcome in (1, 0, 0, 0)])
    assert [group.rewards for group in stream.groups] == [(2.5, 0.5), (0.5, 0.5)]
    assert stream.num_rollouts == 4


@pytest.mark.parametrize(
    ("name", "fixed"),
    [
        ("grpo", {}),
        ("dr_grpo", {"loss": "dr_grpo", "advantage": "group_mean"}),
        ("dapo", {"loss": "dapo", "minibatches": 4}),
        ("gspo", {"loss": "gspo", "minibatches": 4}),
        ("cispo", {"loss": "cispo", "minibatches": 4}),
        ("rft", {"loss": "dapo", "advantage": "none"}),
    ],
)
def test_a_method_stands_for_its_loss_and_normaliser(name, fixed):
    method = method_named(name)
    assert dict(method.fixed) == fixed
    assert fixed.get("loss", "dapo") in LOSSES
    own = settled(Settings(train=TrainSettings(method=name))).train
    assert {key: getattr(own, key) for key in fixed} == fixed


def test_only_dapo_resamples():
    assert method_named("dapo").resamples
    assert not method_named("gspo").resamples


# --- rejection fine-tuning


def test_rft_pays_the_first_distinct_right_completions_up_to_a_quarter_of_the_group(make_draft, rewards_of):
    outcomes = (0, 1, 1, 1, 1, 0, 1, 1)  # 2N = 8, so that N/2 = 2 count
    texts = ("w", "u", "u ", "v", "x", "w", "y", "z")  # the second right one says what the first said
    drafts = [make_draft(outcome, text=text) for outcome, text in zip(outcomes, texts, strict=True)]
    assert rewards_of("rft", drafts) == [(0, 1, 0, 1, 0, 0, 0, 0)]
    assert rewards_of("rft", drafts, RewardWeights(max_right=3)) == [(0, 1, 0, 1, 1, 0, 0, 0)]


def test_rft_learns_with_advantage_one_from_what_it_pays_and_from_nothing_else(make_draft, streams_of):
    drafts = [make_draft(outcome, text=str(i), num_tokens=i + 1) for i, outcome in enumerate((1, 0, 1, 1))]
    (stream,) = streams_of("rft", drafts, RewardWeights(max_right=2))
    samples, credit = credit_stream(stream, scale="none", mask_truncated=False)
    assert [(sample.advantage, sample.is_masked) for sample in samples] == [
        (1, False),
        (0, True),
        (1, False),
        (0, True),
    ]
    # what the token mean divides by: completions 0 and 2
    assert sum(len(sample.completion_ids) for sample in samples if not sample.is_masked) == 1 + 3
    assert credit.num_dead_groups == 0


def test_rft_has_nothing_to_learn_where_nothing_is_right(make_draft, streams_of):
    (stream,) = streams_of("rft", [make_draft(0), make_draft(0)])
    assert credit_stream(stream, scale="none", mask_truncated=False).credit.num_dead_groups == 1


# --- length terms

LENGTH = ["lcpo-exact", "lcpo-max", "kimi", "grpo-lead", "shorter-better", "soft-overlong"]
TARGET = RewardWeights(length_target=30, length_alpha=0.01)


@pytest.fixture
def drafts(make_draft):
    return [make_draft(c, num_tokens=n) for c, n in ((1, 10), (1, 20), (1, 30), (0, 20))]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # 2 (c - .01 |30 - n|) + .5
        ("lcpo-exact", (2.1, 2.3, 2.5, 0.3)),
        # 2 c clip(.01 (30 - n) + .5) + .5 = 2 (.7, .6, .5) + .5
        ("lcpo-max", (1.9, 1.7, 1.5, 0.5)),
        # 2c + .5, and lambda = .5, 0, -.5, min(0, 0)
        ("kimi", (3.0, 2.5, 2.0, 0.5)),
        # z = -1.2247, 0, 1.2247 among the right ones; 2 exp(-.05 z) + .5, and -2 + .5 for the wrong one
        ("grpo-lead", (2 * math.exp(0.0612372) + 0.5, 2.5, 2 * math.exp(-0.0612372) + 0.5, -1.5)),
        # 2c + .5 - .001 |10 - n|
        ("shorter-better", (2.5, 2.49, 2.48, 0.49)),
        # the last fifth of 30 tokens starts at 24: only the third is in it, at its end
        ("soft-overlong", (2.5, 2.5, 1.5, 0.5)),
    ],
)
def test_rewards_with_a_length_term(drafts, rewards_of, name, expected):
    assert rewards_of(name, drafts, TARGET, cap=30) == [pytest.approx(expected, abs=1e-7)]


@pytest.mark.parametrize("name", [*LENGTH, "tie-break"])
def test_methods_with_a_length_term_look_at_rewards(name):
    assert method_named(name).signal == "reward"


@pytest.mark.parametrize("name", LENGTH)
def test_right_answers_of_different_lengths_are_learned_from_and_wrong_ones_are_not(make_draft, streams_of, name):
    signal = method_named(name).signal
    for outcome, expected in ((1, True), (0, False)):
        lengths = (5, 28)  # of 30: the second is in the last fifth
        (stream,) = streams_of(name, [make_draft(outcome, num_tokens=n) for n in lengths], TARGET, cap=30)
        assert has_signal(reward_group(stream.groups[0], mask_truncated=False), signal) is expected


def test_kimi_warms_up_without_its_length_reward(drafts, rewards_of):
    weights = RewardWeights(length_from_step=5)
    assert rewards_of("kimi", drafts, weights, step=4) == [(2.5, 2.5, 2.5, 0.5)]
    assert rewards_of("kimi", drafts, weights, step=5) == [(3.0, 2.5, 2.0, 0.5)]


def test_lead_weighs_advantages_by_the_share_of_right_answers(drafts, streams_of):
    (stream,) = streams_of("grpo-lead", drafts)
    group = stream.groups[0]
    # three of four right: w(.75) = .95 for positive advantages, w(.25) = .4 + 1.1 / (1 + exp(-5)) for negative ones
    assert group.factors == pytest.approx((0.95, 0.4 + 1.1 / (1 + math.exp(-5))))
    given = credit_stream(stream, scale="group_mean", mask_truncated=False, signal="reward").credit.groups[0].advantages
    mean = sum(group.rewards) / 4
    expected = [(r - mean) * group.factors[0 if r > mean else 1] for r in group.rewards]
    assert list(given) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["lcpo-exact", "lcpo-max"])
def test_lcpo_needs_a_target(make_draft, streams_of, name):
    with pytest.raises(ConfigError, match=r"reward\.length_target is not set"):
        streams_of(name, [make_draft(1)])
    with pytest.raises(ValueError, match=r"aims at reward\.length_target.*give a number of tokens"):
        Settings(train=TrainSettings(method=name))


def test_a_target_that_the_method_does_not_aim_at_is_refused():
    tree = {"reward": {"length_target": 50}, "train": {"method": "kimi"}}
    with pytest.raises(ValueError, match=r"reward\.length_target is 50.*'kimi' does not aim at.*lcpo-exact"):
        Settings.model_validate(tree)
    assert Settings.model_validate({**tree, "train": {"method": "my_module:Method"}}).reward.length_target == 50
