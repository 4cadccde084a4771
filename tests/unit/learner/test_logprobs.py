"""Chunked logprobs against torch's own log_softmax and cross entropy."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from agon.errors import ModelError
from agon.learner import logprobs
from agon.learner.logprobs import Head, output_head, token_logprobs


def case(softcap, bias=True):
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(13, 8, generator=generator, dtype=torch.float32)
    weight = 3.0 * torch.randn(21, 8, generator=generator)
    offset = torch.randn(21, generator=generator) if bias else None
    targets = torch.randint(0, 21, (13,), generator=generator)
    return hidden, targets, Head(weight, offset, softcap)


def reference(hidden, targets, head, temperature):
    logits = hidden @ head.weight.T + (0.0 if head.bias is None else head.bias)
    if head.softcap is not None:
        logits = head.softcap * torch.tanh(logits / head.softcap)
    distribution = torch.distributions.Categorical(logits=logits / temperature)
    return distribution.log_prob(targets), distribution.entropy()


@pytest.mark.parametrize("softcap", [None, 5.0])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("chunk", [1, 4, 100])
def test_values_entropies_and_gradients_equal_the_unchunked_ones(softcap, temperature, chunk):
    hidden, targets, head = case(softcap)
    own, other = hidden.clone().requires_grad_(), hidden.clone().requires_grad_()
    out = token_logprobs(own, targets, head, temperature=temperature, chunk=chunk)
    logprobs, entropies = reference(other, targets, head, temperature)
    torch.testing.assert_close(out.logprobs, logprobs, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(out.entropies, entropies, rtol=1e-5, atol=1e-5)
    weights = torch.arange(13.0) - 6.0
    (weights * out.logprobs.exp()).sum().backward()
    (weights * logprobs.exp()).sum().backward()
    torch.testing.assert_close(own.grad, other.grad, rtol=1e-4, atol=1e-5)


def test_without_gradients_nothing_is_kept():
    hidden, targets, head = case(None, bias=False)
    with torch.no_grad():
        out = token_logprobs(hidden.requires_grad_(), targets, head, temperature=1.0, chunk=4)
    assert not out.logprobs.requires_grad
    torch.testing.assert_close(out.logprobs, reference(hidden, targets, head, 1.0)[0])


def test_a_certain_token_has_entropy_zero_and_not_nan():
    head = Head(torch.tensor([[1e4], [0.0]]), None, None)
    out = token_logprobs(torch.ones(1, 1), torch.tensor([0]), head, temperature=1.0, chunk=8)
    assert out.logprobs.item() == 0.0
    assert out.entropies.item() == 0.0


def test_no_tensor_of_vocabulary_size_times_tokens_is_made(monkeypatch):
    # 64 tokens, vocabulary 21, chunks of 4: no matrix product may give more than 4 x 21 logits.
    hidden = torch.randn(64, 8, requires_grad=True)
    head = Head(torch.randn(21, 8), None, None)
    sizes = []
    original = logprobs._terms
    monkeypatch.setattr(logprobs, "_terms", lambda logits, *rest: sizes.append(len(logits)) or original(logits, *rest))
    out = token_logprobs(hidden, torch.zeros(64, dtype=torch.long), head, temperature=1.0, chunk=4)
    assert [tensor.shape for tensor in out.logprobs.grad_fn.saved_tensors] == [(64, 8)]
    out.logprobs.sum().backward()
    assert sizes == [4] * 16  # once each, none again in the backward pass


def test_an_adapted_or_odd_output_layer_is_refused(make_pair):
    pair = make_pair()
    head = output_head(pair.base.model)
    assert head.weight is pair.base.model.lm_head.weight
    model = pair.base.model
    layer = model.lm_head
    model.lm_head = nn.Identity()
    with pytest.raises(ModelError, match="output layer is a Identity, not a linear layer"):
        output_head(model)
    layer.lora_A = {}
    model.lm_head = layer
    with pytest.raises(ModelError, match=r"adapter\.targets takes in the output layer"):
        output_head(model)


@pytest.mark.parametrize("softcap", [None, 5.0])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_the_lean_terms_are_the_plain_ones(softcap, temperature):
    # What is compiled on a GPU, here as it stands; the last logit of a row is impossible.
    hidden, targets, head = case(softcap)
    logits = hidden @ head.weight.T
    logits[:, -1] = float("-inf") if softcap is None else -90.0
    targets = targets.clamp_max(19)
    plain = logprobs._terms(logits, targets, softcap, temperature, True)
    lean = logprobs._lean_terms(logits, targets, softcap, temperature, True)
    for own, other in zip(lean, plain, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-5)
    assert logprobs._lean_terms(logits.bfloat16(), targets, softcap, temperature, True)[2].dtype == torch.bfloat16
    assert logprobs._lean_terms(logits, targets, softcap, temperature, False)[2].numel() == 0
