from __future__ import annotations

import copy

import pytest
import torch

from agon.rollout.decoding import ModelCall, SlotDecoder
from agon.rollout.lean import find_layers, replaced
from agon.rollout.probe import find_fault


@pytest.mark.parametrize(
    ("family", "found"), [("llama", 2), ("qwen2", 2), ("qwen2-window", 2), ("qwen3", 2), ("qwen3.5", 0), ("gemma4", 0)]
)
def test_layers_built_like_llamas_are_found_and_others_are_not(family, found, make_base):
    assert len(find_layers(make_base(family).model)) == found


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen2-window", "qwen3"])
@torch.inference_mode()
def test_a_lean_step_gives_the_logits_of_the_models_own_layers(family, make_base):
    model = make_base(family).model
    call = ModelCall(model)
    own, lean = (SlotDecoder(call, room=3, longest_prompt=7) for _ in range(2))
    for decoder in (own, lean):
        decoder.admit([(5, 6), (5, 6), (7, 8, 9, 10, 11, 12, 13)])
    for step in range(6):
        tokens, positions = torch.tensor([5, 20, 30]) + step, torch.tensor([2, 2, 7]) + step
        wanted = own.step(tokens, positions)
        with replaced(find_layers(model)):
            found = lean.step(tokens, positions)
        assert torch.allclose(found, wanted, atol=1e-4)


@torch.inference_mode()
def test_in_low_precision_a_lean_step_rounds_as_the_models_own_layers_do(make_base):
    model = make_base("qwen3").model.to(torch.bfloat16)
    call = ModelCall(model)
    own, lean = (SlotDecoder(call, room=3, longest_prompt=7) for _ in range(2))
    for decoder in (own, lean):
        decoder.admit([(5, 6), (5, 6), (7, 8, 9, 10, 11, 12, 13)])
    tokens, positions = torch.tensor([5, 20, 30]), torch.tensor([2, 2, 7])
    with replaced(find_layers(model)):
        found = lean.step(tokens, positions)
    assert torch.equal(found, own.step(tokens, positions))


def test_the_models_own_layers_are_back_after_the_block(make_base):
    model = make_base("llama").model
    with replaced(find_layers(model)):
        assert sum("forward" in vars(module) for module in model.modules()) == 2
        ids = torch.tensor([[5, 6, 7]])
        inside = model(input_ids=ids).logits  # several tokens: the model's own layers compute
    assert not any("forward" in vars(module) for module in model.modules())
    assert torch.equal(inside, model(input_ids=ids).logits)


@torch.inference_mode()
def test_a_layer_that_has_the_parts_and_computes_something_else_is_found_out(make_base):
    class DampedLayer(type(make_base("llama").model.model.layers[0])):
        def forward(self, hidden_states, **inputs):
            return hidden_states + 0.1 * (super().forward(hidden_states, **inputs) - hidden_states)

    model = copy.deepcopy(make_base("llama").model)
    for layer in model.model.layers:
        layer.__class__ = DampedLayer
    call = ModelCall(model)
    assert len(find_layers(model)) == 2
    assert "differ from a plain forward pass" in (find_fault(call, find_layers(model)) or "")
    assert find_fault(call) is None
