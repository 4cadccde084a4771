from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.special import rel_entr, softmax
from transformers import LlamaConfig, LlamaForCausalLM

from agon.config import AdapterSettings
from agon.evaluation import policies
from agon.evaluation.policies import divergences
from agon.model.base import BaseIdentity, wrap_model
from agon.model.pair import AdapterPair
from agon.records import Attempt, Completion, Prompt, Verdict

ALL = (("A", "B"), ("A", None), ("B", None))


@pytest.fixture(scope="module")
def pair():
    config = LlamaConfig(
        vocab_size=48,
        hidden_size=32,
        intermediate_size=56,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        eos_token_id=2,
        initializer_range=0.2,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        base = wrap_model(LlamaForCausalLM(config), None, identity=BaseIdentity("tiny", "tiny"))
    pair = AdapterPair.create(base, AdapterSettings(rank=4, alpha=8.0, init="standard"), seed=0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name in "AB":
            for parameter in pair.parameters(name):
                parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
    return pair


def attempt(prompt, completion):
    sampled = Completion(tuple(completion), (-0.1,) * len(completion), "x", "stop", "A", 0)
    return Attempt("drafter", "A", Prompt(tuple(prompt), "q"), sampled, Verdict("wrong", 0.0), 1.0)


# Two problems, of two and one completions of unlike length.
TEXT = [[attempt([5, 9, 3], [7, 8, 2]), attempt([5, 9, 3], [30, 2])], [attempt([11, 4], [6, 6, 31, 20, 2])]]


def distributions(pair, name, one, temperature):
    """The next-token distributions at each sampled token, from a plain forward pass of one sequence."""
    ids = [*one.prompt.token_ids, *one.completion.token_ids]
    with pair.sampling(name) as model, torch.no_grad():
        logits = model(torch.tensor([ids]), use_cache=False).logits[0].double().numpy()
    start = len(one.prompt.token_ids)
    return softmax(logits[start - 1 : len(ids) - 1] / temperature, axis=1)


def expected(pair, first, second, text, temperature):
    p, q = (
        np.concatenate([distributions(pair, name, one, temperature) for row in text for one in row])
        for name in (first, second)
    )
    return {
        "kl": rel_entr(p, q).sum(axis=1).mean(),
        "kl_reverse": rel_entr(q, p).sum(axis=1).mean(),
        "js": np.mean([jensenshannon(x, y) ** 2 for x, y in zip(p, q, strict=True)]),
        "top1_agreement": np.mean(p.argmax(axis=1) == q.argmax(axis=1)),
    }


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_every_measure_is_that_of_scipy_over_the_whole_vocabulary(pair, temperature):
    rows = divergences(pair, TEXT, name="A", between=ALL, temperature=temperature, seed=0)
    for row, (first, second) in zip(rows, ALL, strict=True):
        assert (row.text, row.first, row.second) == ("A", first, second or "base")
        found = {name: getattr(row, name) for name in ("kl", "kl_reverse", "js", "top1_agreement")}
        assert found == pytest.approx(expected(pair, first, second, TEXT, temperature), rel=1e-4)
        # sampled tokens alone: 3 + 2 + 5
        assert row.num_tokens == 10
        assert 0 < row.js < np.log(2)


def test_a_small_vocabulary_share_at_a_time_gives_the_same(pair, monkeypatch):
    (whole,) = divergences(pair, TEXT, name="A", between=ALL[:1], temperature=1.0, seed=0)
    monkeypatch.setattr(policies, "_LOGITS_AT_ONCE", 3 * 48)
    monkeypatch.setattr(policies, "_TOKENS_AT_ONCE", 6)
    (pieces,) = divergences(pair, TEXT, name="A", between=ALL[:1], temperature=1.0, seed=0)
    for name in ("kl", "kl_reverse", "js", "top1_agreement"):
        assert getattr(pieces, name) == pytest.approx(getattr(whole, name), rel=1e-4)


def test_a_policy_is_at_no_distance_from_itself(pair):
    (row,) = divergences(pair, TEXT, name="B", between=[("B", "B")], temperature=1.0, seed=0)
    assert (row.kl, row.kl_reverse, row.top1_agreement) == (0.0, 0.0, 1.0)
    assert row.js == pytest.approx(0.0, abs=1e-12)
    # Problems that do not differ give no interval, rather than one of width zero.
    assert row.intervals["kl"] is None


def test_intervals_resample_problems_with_all_their_tokens(pair):
    (row,) = divergences(pair, TEXT, name="A", between=ALL[:1], temperature=1.0, seed=0)
    one, other = (expected(pair, "A", "B", [of_problem], 1.0)["kl"] for of_problem in TEXT)
    # A resample of two problems is one of them twice, or both: the ends are the two problems alone.
    assert (row.intervals["kl"].low, row.intervals["kl"].high) == pytest.approx(sorted((one, other)), rel=1e-4)
    assert row.intervals["kl"].unit == "problem"


def test_on_its_own_samples_a_kl_is_what_sampled_logprobs_say_on_average(pair):
    # Unbiased: the mean log-ratio of tokens that A sampled at temperature 1 estimates the same KL.
    rng = np.random.default_rng(0)
    text, ratios = [], []
    for _ in range(150):
        ids = [5, 9, 3]
        one = attempt(ids, [1])
        p = distributions(pair, "A", one, 1.0)[0]
        token = int(rng.choice(48, p=p / p.sum()))
        text.append([attempt(ids, [token])])
        ratios.append(np.log(p[token] / distributions(pair, "B", one, 1.0)[0][token]))
    (row,) = divergences(pair, text, name="A", between=ALL[:1], temperature=1.0, seed=0)
    assert row.kl == pytest.approx(np.mean(ratios), abs=4 * np.std(ratios) / np.sqrt(150))


def test_the_adapters_can_still_be_trained_afterwards(pair):
    divergences(pair, TEXT, name="A", between=ALL, temperature=1.0, seed=0)
    with pair.training("A") as model:
        model(torch.tensor([[5, 9, 3]]), use_cache=False).logits.sum().backward()
        assert all(parameter.grad is not None for parameter in pair.parameters("A"))
    for parameter in pair.parameters("A"):
        parameter.grad = None


def test_the_vocabulary_that_one_of_them_rules_out_counts_infinitely_one_way():
    first = torch.log(torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64))
    second = torch.log(torch.tensor([[0.25, 0.25, 0.5]], dtype=torch.float64))
    kl, reverse, js, agreement = policies._terms(first, second)[0].tolist()
    assert kl == pytest.approx(np.log(2))
    assert reverse == np.inf
    assert js == pytest.approx(jensenshannon([0.5, 0.5, 0.0], [0.25, 0.25, 0.5]) ** 2)
    assert agreement == 0.0
