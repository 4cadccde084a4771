from __future__ import annotations

import pytest
import torch
from torch import nn

from agon.rollout.lean import find_norms, replaced


class HalvingRMSNorm(nn.Module):
    """Looks like a norm and is something else."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))
        self.eps = 1e-6

    def forward(self, x):
        return x * 0.5 * self.weight


@pytest.mark.parametrize("family", ["llama", "qwen3", "qwen3.5", "gemma4"])
def test_norms_of_a_family_are_found_and_compute_the_same(family, make_base):
    model = make_base(family).model
    norms = find_norms(model)
    assert len(norms) >= 2 * model.config.num_hidden_layers
    ids = torch.tensor([[5, 6, 7, 8, 9]])
    with torch.no_grad():
        wanted = model(input_ids=ids).logits
        with replaced(norms):
            assert all("forward" in vars(module) for module, _ in norms)
            found = model(input_ids=ids).logits
    assert torch.allclose(found, wanted, atol=1e-4)
    assert not any("forward" in vars(module) for module, _ in norms)


def test_what_only_looks_like_a_norm_is_left_alone():
    assert find_norms(nn.Sequential(HalvingRMSNorm())) == []


def test_norms_in_low_precision_are_left_alone(make_base):
    assert find_norms(make_base("llama").model.to(torch.bfloat16)) == []
