"""Compiled and recomputed layers compute what plain ones do; graphs are shared."""

from __future__ import annotations

from contextlib import suppress

import jaxtyping
import pytest
import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd

from agon.learner import attention, layers, logprobs
from agon.learner.layers import running_layers


def attend(query, key, value, packing, scale, window):
    """What torch's variable-length kernel computes, in operations that can be compiled anywhere."""
    place = torch.arange(query.shape[2])
    sequence = torch.searchsorted(packing.offsets, place, right=True)
    distance = place[:, None] - place[None, :]
    is_visible = (sequence[:, None] == sequence[None, :]) & (distance >= 0)
    if window is not None:
        is_visible &= distance < window
    groups = query.shape[1] // key.shape[1]
    key, value = (part.repeat_interleave(groups, dim=1) for part in (key, value))
    scores = (query @ key.mT * scale).masked_fill(~is_visible, float("-inf"))
    return (scores.softmax(-1) @ value).transpose(1, 2)


@pytest.fixture
def graphs(monkeypatch):
    """Compile on a CPU, as far as torch's differentiation; lists the graphs that were made."""
    made = []

    def keep(graph, _):
        made.append(graph)
        return torch._functorch.compilers.nop(graph, _)

    # Shape checks off: the compiler cannot look into them.
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    monkeypatch.setattr(attention, "_varlen", attend)
    monkeypatch.setattr(logprobs, "_compiled_lean_terms", logprobs._lean_terms)
    monkeypatch.setattr(attention, "_fits_varlen", lambda query, value: True)
    monkeypatch.setattr(layers, "_BACKEND", aot_autograd(fw_compiler=keep, bw_compiler=torch._functorch.compilers.nop))
    torch._dynamo.reset()
    yield made
    torch._dynamo.reset()


def updates(learner, make_samples):
    reports = [learner.update("AB"[step % 2], make_samples(seed=step), step=step, total_steps=4) for step in range(4)]
    return torch.tensor([[report.loss, report.grad_norm, report.entropy] for report in reports])


@pytest.mark.parametrize("is_recomputed", [False, True])
def test_compiled_updates_are_the_plain_ones_and_all_layers_and_adapters_share_a_graph(
    is_recomputed, graphs, make_base, make_pair, make_learner, make_samples
):
    options = {"tokens_per_microbatch": 60, "gradient_checkpointing": is_recomputed}
    plain = updates(make_learner(make_pair(make_base("qwen3")), **options), make_samples)
    assert not graphs
    learner = make_learner(make_pair(make_base("qwen3")), compile="on", **options)
    assert learner.runner.is_compiled
    assert learner.runner.compile_seconds > 0
    torch.testing.assert_close(updates(learner, make_samples), plain, rtol=1e-4, atol=1e-5)
    # Two layers, two adapters, micro-batches of many sizes.
    assert len(graphs) == 1
    assert not any("forward" in vars(layer) for layer in layers.decoder_layers(learner._pair.base.model))


def test_minibatches_score_old_logprobs_by_compiled_layers_too(
    graphs, make_base, make_pair, make_learner, make_samples
):
    options = {"minibatches": 2, "tokens_per_microbatch": 60}
    plain = updates(make_learner(make_pair(make_base("llama")), **options), make_samples)
    learner = make_learner(make_pair(make_base("llama")), compile="on", **options)
    torch.testing.assert_close(updates(learner, make_samples), plain, rtol=1e-4, atol=1e-5)
    assert len(graphs) == 2  # with gradients and without


def test_layers_run_as_before_after_an_error(make_base):
    model = make_base().model
    found = layers.decoder_layers(model)
    ids = torch.tensor([[1, 2, 3]])
    before = model(ids, use_cache=False).logits
    swapped = [lambda hidden, **_: hidden * 2.0 for _ in found]
    with suppress(ZeroDivisionError), running_layers(model, found, swapped, is_recomputed=False):
        assert not torch.equal(model(ids, use_cache=False).logits, before)
        _ = 1 / 0
    assert torch.equal(model(ids, use_cache=False).logits, before)
    assert isinstance(model.get_input_embeddings(), nn.Embedding)
    assert not model.get_input_embeddings()._forward_hooks
