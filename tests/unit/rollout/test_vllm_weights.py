from __future__ import annotations

import pytest
import torch

from agon.errors import EngineError
from agon.model.lora import merged_weights
from agon.rollout.vllm_weights import FusedWeights, SwappedWeights, adapted_names


@pytest.fixture
def make_fused(make_pair, make_server):
    """Return a function (family="qwen3", with_adapters=False) -> (fused weights, pair)."""

    def make(family: str = "qwen3", *, with_adapters: bool = False):
        pair = make_pair(family)
        server = make_server(family, adapters=2 if with_adapters else 0)
        return FusedWeights(server.model, pair.base), pair

    return make


@pytest.mark.parametrize("with_adapters", [False, True])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_every_weight_is_found_in_its_rows(make_fused, family, with_adapters):
    fused, pair = make_fused(family, with_adapters=with_adapters)
    for site in pair.sites:
        assert torch.equal(fused.view(f"{site.path}.weight"), site.weight)


def test_rows_of_fused_matrices_follow_each_other_in_the_packs_order(make_fused):
    fused, _ = make_fused("qwen3")
    path = "model.layers.0.self_attn"
    query, key, value = (fused.view(f"{path}.{part}_proj.weight") for part in "qkv")
    size = query.element_size()
    # Grouped queries: 4 heads of 16 for q, 1 for k and v.
    assert (query.shape[0], key.shape[0], value.shape[0]) == (64, 16, 16)
    assert key.data_ptr() - query.data_ptr() == query.numel() * size
    assert value.data_ptr() - key.data_ptr() == key.numel() * size
    assert fused.place(f"{path}.v_proj") == (f"{path}.qkv_proj", 2)
    assert fused.place("model.layers.1.mlp.up_proj") == ("model.layers.1.mlp.gate_up_proj", 1)
    assert fused.place("model.layers.1.mlp.down_proj") == ("model.layers.1.mlp.down_proj", 0)


def test_after_a_thousand_swaps_the_engine_holds_what_one_merge_gives_and_the_base_comes_back(make_fused):
    fused, pair = make_fused()
    weights = SwappedWeights(fused, pair.sites)
    for number in range(1000):
        weights.write(("A", "B", None)[number % 3])
    for name in ("A", "B"):
        weights.write(name)
        for site, merged in zip(pair.sites, merged_weights(pair.sites, name), strict=True):
            assert torch.equal(fused.view(f"{site.path}.weight"), merged)
    weights.write(None)
    for site in pair.sites:
        assert torch.equal(fused.view(f"{site.path}.weight"), site.weight)


def test_sharing_leaves_one_copy_of_what_is_not_written(make_base, make_server):
    base = make_base("qwen3")
    server = make_server("qwen3")
    fused = FusedWeights(server.model, base)
    total = sum(parameter.numel() * 4 for parameter in base.model.parameters())
    adapted = adapted_names(base, "all-linear")
    adapted_bytes = sum(base.model.get_parameter(name).numel() * 4 for name in adapted)
    before = base.model(torch.tensor([[3, 4, 5]])).logits
    assert fused.share(but_not=adapted) == total - adapted_bytes
    assert fused.share() == adapted_bytes
    assert fused.share() == 0
    assert torch.equal(base.model(torch.tensor([[3, 4, 5]])).logits, before)
    own = {parameter.data_ptr() for parameter in server.model.parameters()}
    assert base.model.model.embed_tokens.weight.data_ptr() in own


def test_a_learner_can_train_on_shared_weights(make_base, make_server):
    from agon.config import AdapterSettings
    from agon.model.pair import AdapterPair

    base = make_base("llama")
    FusedWeights(make_server("llama").model, base).share()
    pair = AdapterPair.create(base, AdapterSettings(rank=4, init="standard"), seed=0)
    with pair.training("A") as model:
        model(torch.tensor([[3, 4, 5]])).logits.square().sum().backward()
    assert all(site.up("A").grad is not None for site in pair.sites)


def test_adapted_names_follow_the_targets(make_base):
    base = make_base("llama")
    assert len(adapted_names(base, "all-linear")) == 2 * 7
    assert adapted_names(base, ("q_proj",)) == {f"model.layers.{i}.self_attn.q_proj.weight" for i in range(2)}


def test_weights_that_differ_are_refused_by_name(make_base, make_server):
    base = make_base("llama")
    with torch.no_grad():
        base.model.model.layers[1].mlp.up_proj.weight[3, 3] += 1.0
    with pytest.raises(EngineError, match=r"model\.layers\.1\.mlp\.up_proj\.weight differs from the learner's"):
        FusedWeights(make_server("llama").model, base)


def test_a_model_that_is_laid_out_otherwise_is_refused(make_base, make_server):
    server = make_server("llama")
    del server.model.model.layers.get_submodule("0").self_attn.qkv_proj
    with pytest.raises(EngineError, match=r"vLLM has no layer model\.layers\.0\.self_attn\.qkv_proj"):
        FusedWeights(server.model, make_base("llama"))
