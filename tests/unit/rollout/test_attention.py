from __future__ import annotations

import contextlib

import pytest
import torch
from torch.nn import functional

from agon.rollout.attention import decode_attention, decoding


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_it_is_softmax_attention_with_shared_heads_and_hidden_slots(kv_heads):
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(3, 4, 1, 8, generator=generator)
    key, value = torch.randn(2, 3, kv_heads, 6, 8, generator=generator)
    mask = torch.zeros(3, 1, 1, 9)
    mask[0, ..., :5] = mask[1, ..., :7] = float("-inf")  # the last 6 of 9 slots are seen: 4, 2 and 6 of them
    output, _ = decode_attention(None, query, key, value, mask, scaling=0.3)
    wanted = functional.scaled_dot_product_attention(
        query,
        key.repeat_interleave(4 // kv_heads, 1),
        value.repeat_interleave(4 // kv_heads, 1),
        attn_mask=mask[..., 3:],
        scale=0.3,
    )
    assert torch.allclose(output, wanted.transpose(1, 2), atol=1e-5)


def test_scores_are_capped_softly_before_the_mask():
    # One head of width 1: scores 4 and 0, capped at 2: 2 tanh 2 = 1.928 and 0.
    query, key = torch.tensor([[[[2.0]]]]), torch.tensor([[[[2.0], [0.0]]]])
    value = torch.tensor([[[[1.0], [0.0]]]])
    output, _ = decode_attention(None, query, key, value, None, scaling=1.0, softcap=2.0)
    assert output.item() == pytest.approx(torch.sigmoid(torch.tensor(1.92806)).item(), abs=1e-5)


def test_the_models_own_attention_is_back_after_the_block_even_after_an_error(make_base):
    config = make_base("llama").model.config
    before = config._attn_implementation
    with contextlib.suppress(ValueError), decoding(config):
        assert config._attn_implementation == "agon_decode"
        raise ValueError("stop")
    assert config._attn_implementation == before
