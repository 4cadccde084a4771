"""FlashAttention 4 as an operation of torch: what it is called with, and what becomes of its gradients."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from agon.errors import ConfigError
from agon.learner import attention, blocks, flash
from agon.learner.attention import FLASH_NAME, flash_attention, plan_packing

LENGTHS = [6, 4, 1]


def pieces(query, key, value, offsets, left):
    """Each sequence's queries, keys and values (heads x tokens x width, key heads repeated), and what its tokens may see."""
    groups = query.shape[1] // key.shape[1]
    for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        q, k, v = (part[start:stop].transpose(0, 1) for part in (query, key, value))
        row, column = torch.arange(stop - start)[:, None], torch.arange(stop - start)[None, :]
        visible = (column <= row) & (column >= row - left if left is not None else True)
        yield slice(start, stop), q, k.repeat_interleave(groups, 0), v.repeat_interleave(groups, 0), visible


def summed(gradient, key):
    """Add up what the query heads that share a key head send to it."""
    heads, tokens, width = gradient.shape
    return gradient.reshape(key.shape[1], heads // key.shape[1], tokens, width).sum(1).transpose(0, 1)


class Kernels:
    """In the place of the module with the kernels, with its functions' names, arguments and results (vLLM 0.26)."""

    num_calls = 0

    def _flash_attn_fwd(self, query, key, value, *, return_lse, **more):
        assert return_lse
        self.num_calls += 1
        scale, left = self._asked(query, key, value, **more)
        out, normalizers = torch.empty_like(query), query.new_empty(query.shape[1], len(query))
        for span, q, k, v, visible in pieces(query, key, value, more["cu_seqlens_q"], left):
            scores = (q @ k.mT * scale).masked_fill(~visible, -math.inf)
            out[span] = (scores.softmax(-1) @ v).transpose(0, 1)
            normalizers[:, span] = scores.logsumexp(-1)
        return out, normalizers, None, None

    def _flash_attn_bwd(self, query, key, value, out, grad, normalizers, **more):
        scale, left = self._asked(query, key, value, out, grad, **more)
        grads = [torch.empty_like(part) for part in (query, key, value)]
        for span, q, k, v, visible in pieces(query, key, value, more["cu_seqlens_q"], left):
            g, o = grad[span].transpose(0, 1), out[span].transpose(0, 1)
            shares = (q @ k.mT * scale - normalizers[:, span, None]).exp().masked_fill(~visible, 0.0)
            slopes = scale * shares * (g @ v.mT - (g * o).sum(-1, keepdim=True))
            grads[0][span] = (slopes @ k).transpose(0, 1)
            grads[1][span] = summed(slopes.mT @ q, key)
            grads[2][span] = summed(shares.mT @ g, value)
        return tuple(grads)

    def _asked(self, *tensors, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, softmax_scale, causal, **window):
        assert all(tensor.is_contiguous() for tensor in tensors)
        assert cu_seqlens_q is cu_seqlens_k
        assert cu_seqlens_q.dtype == torch.int32
        assert max_seqlen_q == max_seqlen_k == int(cu_seqlens_q.diff().max())
        left = window.pop("window_size_left", None)
        # A window's right end is the token itself; without a window, causal says so.
        assert (window.pop("window_size_right", None), causal) == ((None, True) if left is None else (0, False))
        assert not window
        return softmax_scale, left


@pytest.fixture
def kernels(monkeypatch):
    kernels = Kernels()
    monkeypatch.setattr(flash, "find_kernels", lambda: kernels)
    monkeypatch.setattr(flash, "fits", lambda query, value: True)
    monkeypatch.setattr(flash, "why_not", lambda base: "")
    return kernels


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("window", [None, 3])
def test_values_and_gradients_are_those_of_blocks(kernels, monkeypatch, window, is_compiled):
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn(1, heads, sum(LENGTHS), 8, generator=generator) for heads in (4, 2, 2)]
    own, other = ([part.clone().requires_grad_() for part in parts] for _ in range(2))
    packing = plan_packing(LENGTHS, torch.device("cpu"))

    def layer(query, key, value):
        return flash_attention(None, query, key, value, agon_packing=packing, scaling=0.7, sliding_window=window)[0]

    run = torch.compile(layer, fullgraph=True, backend="aot_eager") if is_compiled else layer
    if is_compiled:
        import jaxtyping

        monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    out = run(*own)
    expected = blocks.attend_by_blocks(*other, packing.blocks, scale=0.7, window=window, softcap=None)
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
    weights = torch.randn(out.shape, generator=generator)
    (out * weights).sum().backward()
    (expected * weights).sum().backward()
    for mine, theirs in zip(own, other, strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-5)


def test_the_operations_keep_torchs_rules(kernels):
    query, key, value = (torch.randn(sum(LENGTHS), heads, 8, requires_grad=True) for heads in (4, 2, 2))
    offsets = plan_packing(LENGTHS, torch.device("cpu")).offsets
    arguments = (query, key, value, offsets, max(LENGTHS), 0.7, -1)
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(torch.ops.agon.flash, arguments, test_utils=checks)


def test_what_does_not_fit_goes_where_it_went_before(monkeypatch):
    monkeypatch.setattr(flash, "attend", lambda *_, **__: pytest.fail("not for these"))
    packing = plan_packing(LENGTHS, torch.device("cpu"))
    parts = [torch.randn(1, heads, sum(LENGTHS), 8) for heads in (4, 2, 2)]
    for options in ({}, {"softcap": 2.0}):  # float32, and a softcap
        out, _ = flash_attention(SimpleNamespace(), *parts, agon_packing=packing, **options)
        expected, _ = attention.packed_attention(SimpleNamespace(), *parts, agon_packing=packing, **options)
        assert torch.equal(out, expected)
    half = torch.zeros(1, 2, 3, 64, dtype=torch.bfloat16)
    assert flash.fits(half, half)
    assert not flash.fits(half, half[..., :32])
    assert not flash.fits(half.repeat(1, 1, 1, 3), half.repeat(1, 1, 1, 3))  # 192 wide
    assert not flash.fits(half.float(), half.float())


def test_an_update_learns_the_same_by_them(kernels, make_base, make_pair, make_learner, make_samples):
    states = []
    for name in ("torch", "flash4"):
        pair = make_pair(make_base("qwen2-window"))
        learner = make_learner(pair, attention=name, tokens_per_microbatch=100)
        learner.update("A", make_samples(12, longest=40), step=0, total_steps=10)
        states.append(pair.parameters("A"))
    assert kernels.num_calls > 0
    for mine, theirs in zip(*states, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)


def test_a_run_that_asks_for_kernels_that_are_not_here_is_refused(make_base, make_pair, make_learner, monkeypatch):
    monkeypatch.setattr(flash, "find_kernels", lambda: None)
    with pytest.raises(ConfigError, match=r'train\.attention is "flash4", but its kernels are not here'):
        make_learner(make_pair(make_base("llama")), attention="flash4")


def test_it_is_taken_by_default_where_it_can_be(kernels, make_base, make_pair, make_learner, monkeypatch):
    assert make_learner(make_pair(make_base("llama"))).runner.attention == FLASH_NAME
    assert make_learner(make_pair(make_base("llama")), attention="torch").runner.attention == attention.NAME
    monkeypatch.setattr(flash, "why_not", lambda base: "no")
    assert make_learner(make_pair(make_base("llama"))).runner.attention == attention.NAME


def test_why_not_names_what_is_lacking(make_base, monkeypatch):
    base = make_base("llama")
    monkeypatch.setattr(flash, "find_kernels", lambda: None)
    assert "not here" in flash.why_not(base)
    monkeypatch.setattr(flash, "find_kernels", Kernels)
    assert flash.why_not(base) == "the base is on the device cpu"
    on_gpu = replace(base, device=torch.device("cuda"))
    assert flash.why_not(on_gpu) == "its kernels take no heads of width 8 in float32"
    base.model.config.head_dim = 64
    assert flash.why_not(replace(on_gpu, dtype=torch.bfloat16)) == ""


def test_layers_that_differ_are_looked_at_one_by_one(make_base, monkeypatch):
    monkeypatch.setattr(flash, "find_kernels", Kernels)
    base = replace(make_base("gemma4"), device=torch.device("cuda"), dtype=torch.bfloat16)
    assert "no heads of width 8" in flash.why_not(base)


class Wrong(Kernels):
    """Kernels that forget the window, or with `is_broken` whose compiler fails."""

    is_broken = False

    def _asked(self, *tensors, **more):
        if self.is_broken:
            raise NotImplementedError("no such layout\nsecond line")
        scale, _ = super()._asked(*tensors, **more)
        return scale, None


@pytest.mark.parametrize("is_broken", [False, True])
def test_kernels_that_fail_their_trial_are_not_used(
    kernels, make_base, make_pair, make_learner, monkeypatch, is_broken
):
    pair = make_pair(make_base("qwen2-window"))
    assert flash.try_out(pair.base) == ""
    wrong = Wrong()
    wrong.is_broken = is_broken
    monkeypatch.setattr(flash, "find_kernels", lambda: wrong)
    told = "NotImplementedError: no such layout" if is_broken else "gradients differ by"
    with pytest.warns(UserWarning, match=told):
        learner = make_learner(pair)
    assert learner.runner.attention == attention.NAME
    with pytest.raises(ConfigError, match=told):
        make_learner(pair, attention="flash4")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="needs vLLM")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("window", [None, 30])
@pytest.mark.parametrize("width", [64, 128])
def test_the_kernels_agree_with_blocks_on_a_gpu(window, width):
    lengths = [290, 170, 170, 5, 1]
    device = torch.device("cuda")
    generator = torch.Generator(device).manual_seed(0)
    parts = [torch.randn(1, heads, sum(lengths), width, device=device, generator=generator) for heads in (4, 2, 2)]
    packing = plan_packing(lengths, device)
    weights = torch.randn(1, sum(lengths), 4, width, device=device, generator=generator)
    scale = width**-0.5
    found = {}
    for name, dtype in (("float32", torch.float32), ("torch", torch.bfloat16), ("flash", torch.bfloat16)):
        own = [part.to(dtype, copy=True).requires_grad_() for part in parts]
        if name == "float32":
            out = blocks.attend_by_blocks(*own, packing.blocks, scale=scale, window=window, softcap=None)
        else:
            run = flash_attention if name == "flash" else attention.packed_attention
            out, _ = run(SimpleNamespace(), *own, agon_packing=packing, scaling=scale, sliding_window=window)
        (out.float() * weights).sum().backward()
        found[name] = [out.detach().float(), *(part.grad.float() for part in own)]
    for expected, known, mine in zip(*found.values(), strict=True):
        error, usual = ((other - expected).norm() / expected.norm() for other in (mine, known))
        assert error < max(0.01, 1.5 * usual)


def test_the_name_is_known_to_transformers():
    from transformers import AttentionInterface

    assert FLASH_NAME in AttentionInterface()
