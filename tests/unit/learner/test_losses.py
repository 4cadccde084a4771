"""Losses: values and gradients worked by hand."""

from __future__ import annotations

import math

import pytest
import torch

from agon.learner.losses import LOSSES, ScoredTokens, StepCounts, importance_weights

# Two sequences of 2 and 3 tokens with advantages 1 and -0.5.
ROWS, LENGTHS = torch.tensor([0, 0, 1, 1, 1]), torch.tensor([2, 3])
ADVANTAGES = torch.tensor([1.0, 1.0, -0.5, -0.5, -0.5])
COUNTS = StepCounts(num_tokens=10, num_sequences=4, max_tokens=20)


def tokens(ratios, weights=None):
    """Tokens whose policy has moved by the given ratios since the step began."""
    logprobs = torch.tensor([math.log(ratio) - 1.0 for ratio in ratios], requires_grad=True)
    old = torch.full((5,), -1.0)
    return ScoredTokens(logprobs, old, torch.ones(5) if weights is None else weights, ADVANTAGES, ROWS, LENGTHS)


def run(name, batch, clip_low=None, clip_high=None):
    loss = LOSSES[name]
    low = loss.clip_low if clip_low is None else clip_low
    high = loss.clip_high if clip_high is None else clip_high
    terms = loss.function(batch, COUNTS, low, high)
    (gradient,) = torch.autograd.grad(terms.loss, batch.logprobs)
    return terms.loss.item(), gradient.tolist(), terms.is_clipped.tolist()


@pytest.mark.parametrize(
    ("name", "loss", "per_token"),
    [
        # sum of advantages over tokens: 2 - 1.5 = 0.5; over the step's 10 tokens.
        ("dapo", -0.5 / 10, [-1 / 10] * 2 + [0.5 / 10] * 3),
        # sequence means 1 and -0.5; over the step's 4 sequences. A token's share is 1 / (its length x 4).
        ("grpo", -(1 - 0.5) / 4, [-1 / 8] * 2 + [0.5 / 12] * 3),
        # over 4 sequences x the cap of 20.
        ("dr_grpo", -0.5 / 80, [-1 / 80] * 2 + [0.5 / 80] * 3),
        # on-policy a sequence's ratio is 1 and its gradient is spread evenly: as grpo.
        ("gspo", -(1 - 0.5) / 4, [-1 / 8] * 2 + [0.5 / 12] * 3),
        # minus advantage x logprob (-1 everywhere): sum of -A x -1 = 0.5; over 10 tokens.
        ("cispo", 0.5 / 10, [-1 / 10] * 2 + [0.5 / 10] * 3),
    ],
)
def test_on_policy_values_and_gradients(name, loss, per_token):
    value, gradient, clipped = run(name, tokens([1.0] * 5))
    assert value == pytest.approx(loss, rel=1e-6)
    assert gradient == pytest.approx(per_token, rel=1e-6)
    assert clipped == [False] * 5


def test_token_clipping_is_one_sided_by_the_sign_of_the_advantage():
    # A > 0: clipped above 1.28, not below. A < 0: clipped below 0.8, not above.
    ratios = [1.5, 0.5, 1.5, 0.5, 1.0]
    value, gradient, clipped = run("dapo", tokens(ratios))
    gains = [1.28, 0.5, -0.75, -0.4, -0.5]
    assert value == pytest.approx(-sum(gains) / 10, rel=1e-6)
    assert clipped == [True, False, False, True, False]
    # Where it is not clipped the gradient is -ratio x A / 10.
    assert gradient == pytest.approx([0.0, -0.05, 0.075, 0.0, 0.05], abs=1e-7)


def test_gspo_clips_whole_sequences_by_their_geometric_mean():
    # First sequence: sqrt(1.21 / 1) = 1.1 > 1.0004 with A > 0: clipped. Second: (8 x 0.5 x 0.25)^(1/3) = 1: kept.
    value, gradient, clipped = run("gspo", tokens([1.21, 1.0, 8.0, 0.5, 0.25]))
    assert clipped == [True, True, False, False, False]
    assert value == pytest.approx(-(1.0004 - 0.5) / 4, rel=1e-5)
    assert gradient == pytest.approx([0.0, 0.0] + [0.5 / 12] * 3, abs=1e-6)


def test_cispo_caps_the_weight_and_keeps_every_gradient():
    value, gradient, clipped = run("cispo", tokens([8.0, 2.0, 1.0, 8.0, 0.01]))
    # minus min(rho, 5) x A / 10, rho outside the gradient.
    assert gradient == pytest.approx([-5 / 10, -2 / 10, 0.05, 2.5 / 10, 0.0005], rel=1e-5)
    assert clipped == [True, False, False, True, False]
    assert math.isfinite(value)


@pytest.mark.parametrize("name", LOSSES)
def test_importance_weights_scale_each_tokens_gradient(name):
    weights = torch.tensor([2.0, 0.5, 1.0, 0.0, 1.5])
    _, plain, _ = run(name, tokens([1.0] * 5))
    _, weighted, _ = run(name, tokens([1.0] * 5, weights))
    # gspo has one ratio a sequence: its tokens share the mean weight, 1.25 and 2.5/3.
    shares = [1.25, 1.25, 2.5 / 3, 2.5 / 3, 2.5 / 3] if name == "gspo" else weights.tolist()
    assert weighted == pytest.approx([g * w for g, w in zip(plain, shares, strict=True)], rel=1e-5)


@pytest.mark.parametrize("name", LOSSES)
def test_micro_batches_add_up_to_the_batch(name):
    # T01's cause turned round: each part is divided by the counts of the whole step.
    torch.manual_seed(0)
    lengths = torch.tensor([3, 1, 5, 2])
    rows = torch.arange(4).repeat_interleave(lengths)
    logprobs, old = -torch.rand(11) - 0.5, -torch.rand(11) - 0.5
    advantages, weights = torch.randn(4)[rows], torch.rand(11) + 0.5
    loss = LOSSES[name]

    def part(chosen):
        keep = torch.isin(rows, torch.tensor(chosen))
        own = torch.searchsorted(torch.tensor(chosen), rows[keep])
        batch = ScoredTokens(logprobs[keep], old[keep], weights[keep], advantages[keep], own, lengths[chosen])
        return loss.function(batch, COUNTS, loss.clip_low, loss.clip_high).loss

    torch.testing.assert_close(part([0]) + part([1, 3]) + part([2]), part([0, 1, 2, 3]), rtol=1e-6, atol=1e-6)


def test_importance_is_truncated_token_by_token():
    old, behavior = torch.tensor([-1.0, -1.0, -1.0]), torch.tensor([-1.0, -2.0, 0.0])
    # e^0, e^1 cut to 2, e^-1.
    assert importance_weights(old, behavior, 2.0).tolist() == pytest.approx([1.0, 2.0, math.exp(-1)])
    assert importance_weights(old, behavior, None).tolist() == [1.0, 1.0, 1.0]


def test_mean_importance_is_flat_over_length():
    # A product over the sequence would fall to exp(-n x 0.0002): token by token it is 1 at any length.
    generator = torch.Generator().manual_seed(0)
    means = []
    for length in (100, 1_000, 10_000):
        behavior = -torch.rand(200 * length, generator=generator)
        old = behavior + 0.02 * torch.randn(200 * length, generator=generator)
        means.append(importance_weights(old, behavior, 2.0).mean().item())
    # exp of a normal with deviation 0.02 has mean exp(0.0002).
    assert means == pytest.approx([math.exp(0.0002)] * 3, abs=5e-4)
