from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from agon.rollout.sampling import Mix, sample_tokens

ALL = Mix(has_temperature=True, has_greedy=True, has_nucleus=True)
# exp of these is 8 : 4 : 2 : 1 : 1, of 16.
LOGITS = torch.log(torch.tensor([8.0, 4.0, 2.0, 1.0, 1.0]))


def draw(logits, uniforms, *, temperature=1.0, top_p=1.0, mix=ALL):
    rows = len(uniforms)
    return sample_tokens(
        logits.expand(rows, -1).clone(),
        torch.as_tensor(uniforms, dtype=torch.float64),
        torch.full((rows,), temperature),
        torch.full((rows,), top_p),
        mix,
    )


def test_a_uniform_number_picks_the_token_whose_interval_holds_it():
    # Cumulative: 8/16, 12/16, 14/16, 15/16, 16/16. An interval holds its lower end and not its upper.
    uniforms = [0.0, 0.499999, 0.5, 0.749999, 0.75, 0.874999, 0.875, 0.9375, 0.999999]
    assert draw(LOGITS, uniforms).tokens.tolist() == [0, 0, 1, 1, 2, 2, 3, 4, 4]


def test_logprobs_are_those_of_the_tempered_softmax():
    # T = 2 takes square roots: weights 2.828, 2, 1.414, 1, 1.
    weights = [math.sqrt(w) for w in (8, 4, 2, 1, 1)]
    sampled = draw(LOGITS, np.linspace(0, 0.999, 50), temperature=2.0)
    wanted = [math.log(weights[token] / sum(weights)) for token in sampled.tokens.tolist()]
    assert sampled.logprobs.tolist() == pytest.approx(wanted, abs=1e-6)


def test_zero_temperature_takes_the_most_likely_token_with_logprob_zero():
    sampled = draw(LOGITS.flip(0), [0.01, 0.99], temperature=0.0)
    assert sampled.tokens.tolist() == [4, 4]
    assert sampled.logprobs.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("top_p", "kept"),
    [
        (5e-324, [8]),  # zero in float32
        (1e-40, [8]),
        (0.4, [8]),
        (0.5, [8]),
        (0.51, [8, 4]),
        (0.75, [8, 4]),
        (0.8, [8, 4, 2]),
        (0.9, [8, 4, 2, 1]),
        (1.0, [8, 4, 2, 1, 1]),
    ],
)
def test_the_nucleus_is_the_fewest_tokens_that_reach_top_p_renormalised(top_p, kept):
    sampled = draw(LOGITS, np.linspace(0, 0.9999, 400), top_p=top_p)
    assert set(sampled.tokens.tolist()) == set(range(len(kept)))
    wanted = [math.log(kept[token] / sum(kept)) for token in sampled.tokens.tolist()]
    assert sampled.logprobs.tolist() == pytest.approx(wanted, abs=1e-6)


def test_among_equals_at_the_edge_of_the_nucleus_the_lower_id_stays():
    sampled = draw(torch.zeros(6), np.linspace(0, 0.9999, 100), top_p=0.45)
    assert set(sampled.tokens.tolist()) == {0, 1, 2}  # each weighs 1/6: three are needed


def test_a_large_vocabulary_has_the_same_nucleus_as_a_full_sort():
    logits = torch.randn(5000, generator=torch.Generator().manual_seed(1)) * 3
    probs = torch.softmax(logits, 0).double()
    order = probs.argsort(descending=True)
    size = int((probs[order].cumsum(0) < 0.7).sum()) + 1
    sampled = draw(logits, np.linspace(0, 0.999999, 3000), top_p=0.7)
    assert set(sampled.tokens.tolist()) <= set(order[:size].tolist())
    wanted = torch.log(probs[sampled.tokens] / probs[order[:size]].sum())
    assert torch.allclose(sampled.logprobs.double(), wanted, atol=1e-5)


def test_rows_of_every_kind_share_a_batch():
    logits = LOGITS.expand(4, -1).clone()
    temperatures, top_ps = torch.tensor([1.0, 0.0, 2.0, 1.0]), torch.tensor([1.0, 1.0, 1.0, 0.5])
    together = sample_tokens(logits, torch.tensor([0.8, 0.8, 0.8, 0.8], dtype=torch.float64), temperatures, top_ps, ALL)
    assert together.tokens.tolist() == [2, 0, 3, 0]  # by hand: T = 2 has edges .343 .586 .757 .879
    for row in range(4):
        alone = draw(LOGITS, [0.8], temperature=float(temperatures[row]), top_p=float(top_ps[row]))
        assert alone.logprobs.item() == together.logprobs[row].item()


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1.0 - 2.0**-53, 1.0])
def test_a_token_of_probability_zero_is_never_drawn(uniform):
    logits = torch.tensor([-torch.inf, -200.0, 0.0, -torch.inf, 0.0, -200.0, -torch.inf])
    sampled = draw(logits, [uniform])
    assert sampled.tokens.item() in (2, 4)
    assert sampled.logprobs.item() == pytest.approx(math.log(0.5), abs=1e-6)


@given(
    st.lists(st.floats(-60, 60), min_size=2, max_size=40),
    st.floats(0, 1, exclude_max=True),
    st.floats(0.01, 5),
    st.floats(0.01, 1),
)
@settings(max_examples=200, deadline=None)
def test_whatever_is_drawn_has_the_probability_that_is_reported(logits, uniform, temperature, top_p):
    sampled = draw(torch.tensor(logits), [uniform], temperature=temperature, top_p=top_p)
    logprob = sampled.logprobs.item()
    assert math.isfinite(logprob)
    assert logprob <= 1e-6
    plain = torch.log_softmax(torch.tensor(logits) / temperature, 0)[sampled.tokens.item()].item()
    # Cutting to a nucleus of mass at least top_p raises a logprob by at most -log top_p.
    assert plain - 1e-4 <= logprob <= plain - math.log(top_p) + 1e-4


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.6, 1.0), (1.0, 0.8), (1.7, 0.95)])
def test_frequencies_follow_the_distribution(temperature, top_p):
    logits = torch.randn(12, generator=torch.Generator().manual_seed(3)) * 1.5
    uniforms = np.random.default_rng(11).random(40_000)
    sampled = draw(logits, uniforms, temperature=temperature, top_p=top_p)
    # Independently, in numpy: softmax, sort, cut, renormalise.
    weights = np.exp(logits.double().numpy() / temperature)
    probs = weights / weights.sum()
    order = np.argsort(-probs)
    size = int((np.cumsum(probs[order]) < top_p - 1e-12).sum()) + 1
    nucleus = np.zeros_like(probs)
    nucleus[order[:size]] = probs[order[:size]] / probs[order[:size]].sum()
    counts = np.bincount(sampled.tokens.numpy(), minlength=12)
    assert counts[nucleus == 0].sum() == 0
    kept = nucleus > 0
    assert stats.chisquare(counts[kept], nucleus[kept] * len(uniforms)).pvalue > 0.01


def test_logits_that_are_not_finite_show_in_the_logprob():
    logits = torch.tensor([0.0, torch.nan, 0.0])
    assert math.isnan(draw(logits, [0.5]).logprobs.item())
    assert math.isnan(draw(logits, [0.5], temperature=0.0).logprobs.item())


def test_low_precision_logits_are_sampled_in_float32():
    sampled = draw(LOGITS.to(torch.bfloat16), [0.1])
    assert sampled.logprobs.dtype == torch.float32
    assert sampled.logprobs.item() == pytest.approx(math.log(0.5), abs=0.01)
