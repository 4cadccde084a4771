"""How A and B start."""

from __future__ import annotations

import pytest
import torch

from agon.errors import ConfigError
from agon.model.init import token_kl

PROMPTS = [(5, 9, 2, 11, 30, 7, 1, 22), (22, 1, 7, 30, 11, 2, 9, 5)]  # what conftest calibrates on


def updates(pair, name):
    return [site.up(name).detach() @ site.down(name).detach() for site in pair.sites]


def test_standard_start_changes_nothing_and_gives_a_and_b_different_matrices(make_pair):
    pair = make_pair(init="standard")
    for site in pair.sites:
        assert not site.up("A").any()
        assert not site.up("B").any()
        assert not torch.equal(site.down("A"), site.down("B"))
        # Kaiming-uniform with a = sqrt(5) is uniform within 1 / sqrt(inputs).
        bound = site.down("A").shape[1] ** -0.5
        assert 0.8 * bound < site.down("A").abs().max() <= bound


@pytest.mark.parametrize("target", [1e-4, 1e-2])
def test_noise_has_the_divergence_asked_for_and_leaves_a_alone(make_pair, target):
    pair = make_pair(init="noise", noise_kl=target)
    assert all(not update.any() for update in updates(pair, "A"))
    assert token_kl(pair, "A", PROMPTS) == 0.0
    measured = token_kl(pair, "B", PROMPTS)
    assert measured == pytest.approx(target, rel=0.021)
    assert pair.init_report.noise_kl == pytest.approx(measured, rel=1e-9)
    noise = torch.cat([site.up("B").detach().flatten() for site in pair.sites])
    assert noise.std().item() == pytest.approx(pair.init_report.noise_sigma, rel=0.1)


def test_token_kl_is_the_mean_over_positions_of_b_against_the_base(make_pair, randomise, logits):
    pair = make_pair(init="standard")
    randomise(pair, "B")
    with pair.sampling("B") as model:
        own = logits(model).detach().double().log_softmax(-1)
    base = logits(pair.base.model).detach().double().log_softmax(-1)
    # torch's own: kl_div(input, target) is KL(target || input).
    expected = torch.nn.functional.kl_div(base, own, log_target=True, reduction="batchmean")
    assert token_kl(pair, "B", PROMPTS[:1]) == pytest.approx(expected.item(), rel=1e-6)


def test_orthogonal_start_has_zero_update_and_nonzero_factors(make_pair):
    pair = make_pair(init="orthogonal")
    for name in ("A", "B"):
        for site, update in zip(pair.sites, updates(pair, name), strict=True):
            assert update.abs().max() < 1e-7
            assert site.up(name).abs().min() > 0.0
            assert site.down(name).abs().min() > 0.0
    with pytest.raises(ConfigError, match=r"adapter.rank is 3, .*use an even rank"):
        make_pair(init="orthogonal", rank=3)


def test_the_start_is_a_function_of_the_seed_and_not_of_the_global_stream(make_base, make_pair):
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = make_pair(make_base(), init="noise", seed=5)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    again, other = make_pair(make_base(), init="noise", seed=5), make_pair(make_base(), init="noise", seed=6)
    for name in ("A", "B"):
        assert first.fingerprint(name) == again.fingerprint(name)
        assert first.fingerprint(name) != other.fingerprint(name)
