"""Packed attention against a plain masked softmax over each sequence alone."""

from __future__ import annotations

import math
import random
from contextlib import suppress
from types import SimpleNamespace

import pytest
import torch
import torch.nn.attention.varlen

from agon.learner import attention, blocks
from agon.learner.attention import NAME, packed_attention, packed_attention_of, plan_packing


def reference(query, key, value, lengths, scale, window, softcap):
    """Each sequence by itself, scores written out."""
    outputs, start = [], 0
    groups = query.shape[1] // key.shape[1]
    for length in lengths:
        span = slice(start, start + length)
        q, k, v = query[0, :, span], key[0, :, span], value[0, :, span]
        k, v = k.repeat_interleave(groups, 0), v.repeat_interleave(groups, 0)
        scores = q @ k.mT * scale
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        row, column = torch.arange(length)[:, None], torch.arange(length)[None, :]
        visible = column <= row
        if window is not None:
            visible &= column > row - window
        outputs.append((scores.masked_fill(~visible, -math.inf).softmax(-1) @ v).transpose(0, 1))
        start += length
    return torch.cat(outputs).unsqueeze(0)


@pytest.mark.parametrize("plain_length", [256, 0])  # own kernel, then torch's differentiation
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize(("window", "softcap"), [(None, None), (3, None), (None, 2.0), (3, 2.0)])
def test_values_and_gradients_equal_those_of_each_sequence_alone(monkeypatch, plain_length, kv_heads, window, softcap):
    monkeypatch.setattr(blocks, "PLAIN_LENGTH", plain_length)
    lengths = [9, 9, 8, 8, 5, 2, 1, 1]  # blocks with and without padding, and of one token
    generator = torch.Generator().manual_seed(0)
    shapes = ((4, 6), (kv_heads, 6), (kv_heads, 5))
    parts = [torch.randn(1, heads, sum(lengths), width, generator=generator) for heads, width in shapes]
    own, other = ([part.clone().requires_grad_() for part in parts] for _ in range(2))
    packing = plan_packing(lengths, torch.device("cpu"))
    assert any(len(block.is_padding) for block in packing.blocks)
    assert any(block.rows > 1 and not len(block.is_padding) for block in packing.blocks)
    out, _ = packed_attention(
        SimpleNamespace(), *own, None, agon_packing=packing, scaling=0.7, sliding_window=window, softcap=softcap
    )
    expected = reference(*other, lengths, 0.7, window, softcap)
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
    weights = torch.randn(out.shape, generator=generator)
    (out * weights).sum().backward()
    (expected * weights).sum().backward()
    for mine, theirs in zip(own, other, strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-5)


def test_the_default_scale_is_one_over_the_root_of_the_width():
    parts = [torch.randn(1, 2, 7, 9) for _ in range(3)]
    out, _ = packed_attention(SimpleNamespace(), *parts, None, agon_packing=plan_packing([7], torch.device("cpu")))
    torch.testing.assert_close(out, reference(*parts, [7], 1 / 3, None, None))


@pytest.mark.parametrize("seed", range(5))
def test_a_plan_holds_every_token_once_and_little_padding(seed):
    rng = random.Random(seed)
    lengths = sorted((rng.randint(1, 90) for _ in range(60)), reverse=True)
    packing = plan_packing(lengths, torch.device("cpu"))
    assert packing.offsets.tolist() == [sum(lengths[:index]) for index in range(61)]
    assert packing.max_length == lengths[0]
    tokens = [block.start + slot for block in packing.blocks for slot in block.gather[block.scatter].tolist()]
    assert tokens == list(range(sum(lengths)))
    slots = sum(block.rows * block.length for block in packing.blocks)
    assert sum(lengths) >= 0.85 * slots
    for block in packing.blocks:
        assert len(block.is_padding) + len(block.scatter) == block.rows * block.length
        assert not set(block.is_padding.tolist()) & set(block.scatter.tolist())


def test_the_models_own_attention_comes_back_even_after_an_error():
    config = SimpleNamespace(_attn_implementation="sdpa")
    seen = []
    with suppress(ZeroDivisionError), packed_attention_of(config):
        seen.append(config._attn_implementation)
        _ = 1 / 0
    assert seen == [NAME]
    assert config._attn_implementation == "sdpa"


def fake_kernel(shares_heads):
    """A stand-in for torch's CUDA kernel with its documented meaning, with or without shared key heads."""

    def attend(q, k, v, offsets, longest, scale, window_size):
        assert max(offsets.diff().tolist()) == longest
        window = None if window_size[0] < 0 else window_size[0] + 1
        assert window_size[1] == 0
        parts = (part.transpose(0, 1).unsqueeze(0) for part in (q, k, v))
        return reference(*parts, offsets.diff().tolist(), scale, window, None)[0]

    def old(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, scale=None, window_size=(-1, -1)):
        return attend(query, key, value, cu_seq_q, max_q, scale, window_size)

    def new(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, scale=None, window_size=(-1, -1), enable_gqa=False):
        assert enable_gqa == (query.shape[1] != key.shape[1])
        return attend(query, key, value, cu_seq_q, max_q, scale, window_size)

    return new if shares_heads else old


@pytest.mark.parametrize("shares_heads", [True, False])
@pytest.mark.parametrize("window", [None, 3])
def test_torchs_variable_length_kernel_is_called_as_documented(monkeypatch, shares_heads, window):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.nn.attention.varlen, "varlen_attn", fake_kernel(shares_heads))
    run = attention._find_varlen()
    lengths = [6, 4, 1]
    query, key, value = (torch.randn(1, heads, 11, 8) for heads in (4, 2, 2))
    out = run(query, key, value, plan_packing(lengths, torch.device("cpu")), 0.7, window)
    torch.testing.assert_close(out, reference(query, key, value, lengths, 0.7, window, None))


def test_a_kernel_without_windows_is_left_alone(monkeypatch):
    # torch 2.10 has no window_size: blocks are slower there, and right.
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.nn.attention.varlen, "varlen_attn", lambda q, k, v, is_causal=False: q)
    assert attention._find_varlen() is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("window", [None, 3])
def test_both_kernels_agree_on_a_gpu(window):
    lengths = [90, 70, 70, 5, 1]
    device = torch.device("cuda")
    parts = [torch.randn(1, heads, sum(lengths), 64, device=device, dtype=torch.bfloat16) for heads in (4, 2, 2)]
    own = [part.clone().requires_grad_() for part in parts]
    other = [part.float().requires_grad_() for part in parts]
    packing = plan_packing(lengths, device)
    out = attention._varlen(*own, packing, 0.125, window)
    expected = blocks.attend_by_blocks(*other, packing.blocks, scale=0.125, window=window, softcap=None)
    out.float().square().sum().backward()
    expected.square().sum().backward()
    pairs = [(out, expected), *((mine.grad, theirs.grad) for mine, theirs in zip(own, other, strict=True))]
    for mine, theirs in pairs:
        # bfloat16 keeps 8 bits: 0.4 % of a number, and the gradients go through several.
        assert float((mine.float() - theirs).norm() / theirs.norm()) < 0.02
