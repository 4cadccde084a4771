from __future__ import annotations

import pytest
import torch

from agon.errors import EngineError
from agon.rollout.effect import EffectProbe, planted

TEXT = tuple(2 + (11 * i) % 46 for i in range(60))


def _logprobs(model):
    ids = torch.tensor([TEXT])
    with torch.no_grad():
        scores = torch.log_softmax(model(ids).logits[0, :-1].float(), dim=-1)
    return scores.gather(1, ids[0, 1:, None])[:, 0]


def _blur(scores, size, seed):
    return (scores + size * torch.randn(scores.shape, generator=torch.Generator().manual_seed(seed))).tolist()


@pytest.fixture
def pair(make_pair):
    return make_pair("llama")


def _engine(pair, name, *, share=1.0, noise=0.01, seed=1):
    """What an engine would say that shows `share` of the adapter's effect, with rounding of its own."""
    base = _logprobs(pair.base.model)
    with pair.sampling(name) as model:
        own = _logprobs(model)
    return _blur(base + share * (own - base), noise, seed)


def _probe(pair, noise=0.01):
    return EffectProbe(pair.base, TEXT, _blur(_logprobs(pair.base.model), noise, 0))


def test_an_adapter_that_acts_has_slope_one_within_its_error(pair):
    effect = _probe(pair).require(pair, "A", _engine(pair, "A"))
    assert effect.slope == pytest.approx(1.0, abs=4 * effect.slope_error)
    # 59 tokens, a blur of 0.01 twice, over the size of what the adapter changes.
    assert effect.slope_error < 0.05
    assert effect.noise == pytest.approx(0.01 * 0.8, rel=0.4)  # the mean of |noise| is 0.8 of its deviation
    assert effect.gap == pytest.approx(effect.noise, rel=0.5)


@pytest.mark.parametrize("share", [0.0, 0.3, 2.0])
def test_an_adapter_without_its_effect_is_refused(pair, share):
    with pytest.raises(EngineError, match="adapter A does not act in the engine as it does in the learner"):
        _probe(pair).require(pair, "A", _engine(pair, "A", share=share))


def test_another_adapters_effect_is_refused(pair):
    with pytest.raises(EngineError, match="does not act"):
        _probe(pair).require(pair, "A", _engine(pair, "B"))


def test_an_effect_below_the_rounding_passes(pair):
    with torch.no_grad():
        for site in pair.sites:
            site.up("A").mul_(1e-5)
    effect = _probe(pair, noise=0.1).require(pair, "A", _engine(pair, "A", share=0.0, noise=0.1))
    assert effect.slope_error > 0.05


def test_an_update_that_changes_no_bit_is_refused(pair):
    probe = _probe(pair)
    before = _engine(pair, "A")
    probe.require(pair, "A", before)
    probe.require(pair, "A", before)  # the same adapter again: nothing had to change
    with torch.no_grad():
        for site in pair.sites:
            site.up("A").mul_(1.05)
    with pytest.raises(EngineError, match="still has the version before"):
        probe.require(pair, "A", before)


def test_a_planted_adapter_must_show_in_full(pair):
    probe = _probe(pair, noise=0.001)
    with planted(pair, "A"):
        assert probe.require(pair, "A", _engine(pair, "A", noise=0.001), is_planted=True).effect > 0.05
        with pytest.raises(EngineError, match="does not act"):
            probe.require(pair, "A", _engine(pair, "A", share=0.85, noise=0.001), is_planted=True)


def test_a_planted_adapter_that_rounding_hides_is_refused(pair):
    probe = _probe(pair, noise=5.0)
    with planted(pair, "A"), pytest.raises(EngineError, match="rounding hides even a large adapter"):
        probe.require(pair, "A", _engine(pair, "A", noise=0.0), is_planted=True)


def test_planting_is_undone_bit_for_bit_also_after_an_error(pair):
    before = pair.fingerprint("A")

    def fail():
        with planted(pair, "A"):
            assert pair.fingerprint("A") != before
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert pair.fingerprint("A") == before
