"""Merged models of all sorts of bases, loaded back by transformers and PEFT alone."""

from __future__ import annotations

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, Gemma4Config, Gemma4ForConditionalGeneration

from agon.export.records import Wish
from agon.export.run import export_run


@pytest.mark.parametrize("is_tied", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(None, 1e-5), ("f16", 2e-2), ("bf16", 2e-1)])
def test_a_merged_model_loads_in_transformers_and_says_the_same(
    make_run, make_base, logits, own_logits, tmp_path, is_tied, dtype, tolerance
):
    base = make_base(tie_word_embeddings=is_tied)
    run = make_run(base)
    exported = export_run(run, tmp_path / "out", Wish(adapter="A", merge=True, dtype=dtype))
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype=torch.float32)
    torch.testing.assert_close(logits(loaded), own_logits(base, run, "A"), rtol=0, atol=tolerance)
    assert loaded.generation_config.eos_token_id == [2, 40, 41]
    assert set(load_file(tmp_path / "out" / "model.safetensors")) == set(load_file(base / "model.safetensors"))
    assert (loaded.lm_head.weight.data_ptr() == loaded.model.embed_tokens.weight.data_ptr()) == is_tied
    (piece,) = exported.pieces
    assert piece.dtype == (dtype or "f32")
    assert piece.check.error <= tolerance
    assert piece.check.effect > 0.05
    # Without a wish transformers loads what was written.
    written = {"f16": torch.float16, "bf16": torch.bfloat16, None: torch.float32}[dtype]
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "out").dtype == written


@pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True` and a tied layer")
def test_an_adapted_output_layer_of_a_tied_base_is_untied(make_run, make_base, logits, own_logits, tmp_path):
    base = make_base(tie_word_embeddings=True)
    run = make_run(base, adapter={"targets": ("q_proj", "lm_head")})
    export_run(run, tmp_path / "out", Wish(adapter="A", merge=True))
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    expected = own_logits(base, run, "A", targets=("q_proj", "lm_head"))
    torch.testing.assert_close(logits(loaded), expected, rtol=1e-4, atol=1e-5)
    before = load_file(base / "model.safetensors")["model.embed_tokens.weight"]
    assert torch.equal(loaded.model.embed_tokens.weight, before)


def test_the_text_part_of_a_composite_base_is_exported_where_it_belongs(
    make_run, make_base, logits, own_logits, tmp_path
):
    text = {
        "vocab_size": 48,
        "vocab_size_per_layer_input": 48,
        "hidden_size": 32,
        "intermediate_size": 56,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "hidden_size_per_layer_input": 8,
        "sliding_window": 4,
        "max_position_embeddings": 4096,
        "eos_token_id": 2,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "initializer_range": 0.2,
    }
    vision = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "head_dim": 8,
    }
    vision |= {"num_key_value_heads": 2}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Gemma4ForConditionalGeneration(Gemma4Config(text_config=text, vision_config=vision))
    base = make_base(model=model)
    run = make_run(base, adapter={"targets": ("q_proj", "o_proj", "down_proj")})
    expected = own_logits(base, run, "A", targets=("q_proj", "o_proj", "down_proj"))
    exported = export_run(run, tmp_path / "adapter", Wish(adapter="A", base="owner/name"))
    assert any("other loaders may look for other names" in note for note in exported.notes)
    export_run(run, tmp_path / "merged", Wish(adapter="A", merge=True))
    whole = AutoModelForCausalLM.from_pretrained(base)
    assert type(whole) is Gemma4ForConditionalGeneration
    assert not torch.allclose(logits(whole), expected, atol=0.05)
    adapted = PeftModel.from_pretrained(whole, tmp_path / "adapter")
    torch.testing.assert_close(logits(adapted), expected, rtol=1e-4, atol=1e-4)
    assert not any("vision" in name for name, _ in adapted.named_parameters() if "lora_" in name)
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert type(merged) is Gemma4ForConditionalGeneration
    torch.testing.assert_close(logits(merged), expected, rtol=1e-4, atol=1e-4)
