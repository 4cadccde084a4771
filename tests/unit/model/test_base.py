"""Loading a base: what it must be refused for, and what it must not bring along."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import (
    AutoModelForCausalLM,
    Gemma4Config,
    Gemma4ForConditionalGeneration,
    GenerationConfig,
    PreTrainedTokenizerFast,
)

from agon.config import ModelSettings
from agon.errors import ConfigError, ModelError
from agon.model.base import load_base
from agon.model.locate import find_model_folder


@pytest.fixture
def tokenizer():
    words = {f"w{index}": index for index in range(40)} | {"</s>": 40, "<|im_end|>": 41}
    fast = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel(words, unk_token="w0")), eos_token="</s>")
    fast.add_special_tokens({"additional_special_tokens": ["<|im_end|>"]})
    return fast


@pytest.fixture
def folder(tmp_path, make_base, tokenizer):
    """A whole model folder: tiny Llama, tokenizer, and a generation configuration that would narrow sampling."""
    path = tmp_path / "model"
    base = make_base()
    base.model.generation_config = GenerationConfig(
        do_sample=True, eos_token_id=[2, 7], top_k=20, top_p=0.8, temperature=0.6
    )
    base.model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def load(folder, **settings):
    return load_base(ModelSettings(base=str(folder), device="cpu", **settings))


def test_a_folder_loads_frozen_in_evaluation_mode_and_says_what_was_saved(folder, make_base, logits):
    base = load(folder)
    assert torch.equal(logits(base.model), logits(make_base().model))
    assert not any(parameter.requires_grad for parameter in base.model.parameters())
    assert not any(module.training for module in base.model.modules())
    assert (base.context_length, base.dtype, base.device) == (64, torch.float32, torch.device("cpu"))
    assert load(folder, dtype="bfloat16").dtype == torch.bfloat16


def test_stop_ids_are_the_union_of_all_who_name_one(folder):
    # T07: config 2; generation_config 2 and 7; the tokenizer's eos 40; its chat end 41.
    assert load(folder).stop_ids == (2, 7, 40, 41)


def test_sampling_defaults_of_the_generation_configuration_are_dropped(folder):
    # T10: they would narrow the support that the learner sums over.
    generation = load(folder).model.generation_config
    assert not generation.do_sample
    assert generation.top_k in (None, 50)  # transformers' own default, inert without do_sample
    assert generation.top_p in (None, 1.0)
    assert generation.temperature in (None, 1.0)
    assert generation.eos_token_id == [2, 7, 40, 41]


def test_identity_follows_weights_and_configuration_but_not_where_the_folder_is(folder, tmp_path):
    first = load(folder).identity.sha256
    moved = folder.rename(tmp_path / "elsewhere")
    assert load(moved).identity.sha256 == first
    config = json.loads((moved / "config.json").read_text())
    (moved / "config.json").write_text(json.dumps(config | {"transformers_version": "9.9"}))
    assert load(moved).identity.sha256 == first
    (moved / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 1e-3}))
    assert load(moved).identity.sha256 != first
    (moved / "config.json").write_text(json.dumps(config))
    tensors = load_file(moved / "model.safetensors")
    key = sorted(tensors)[0]
    tensors[key][0, 0] += 2.0**-20
    save_file(tensors, moved / "model.safetensors", metadata={"format": "pt"})
    assert load(moved).identity.sha256 != first


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/no/such/folder", "does not exist: give an existing model folder"),
        ("./nowhere", "does not exist"),
        ("someone/some-model", "the Hub cannot be reached: connect to a network once, or give a local folder"),
        ("two words", "neither a local folder nor a possible Hub name"),
    ],
)
def test_a_base_that_is_not_there_is_named_with_a_remedy(name, message):
    with pytest.raises(ModelError, match=message) as caught:
        find_model_folder(name)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_folders_that_hold_no_usable_base_are_refused(folder, tmp_path):
    with pytest.raises(ModelError, match=r"has no config\.json"):
        load(tmp_path)
    with pytest.raises(ModelError, match="is a file: give the folder"):
        load(folder / "config.json")
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelError, match="is an adapter, not a base model"):
        load(tmp_path)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="pickled weights are not read"):
        load(folder)


def test_damaged_weights_are_refused_in_one_line(folder):
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError, match="its weights cannot be loaded") as caught:
        load(folder)
    assert "\n" not in str(caught.value)


def test_a_missing_weight_is_refused_and_not_filled_with_random_numbers(folder):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"1 weights have missing keys \(first: model.layers.1.mlp.up_proj.weight\)"):
        load(folder)


def test_a_base_without_tokenizer_stop_token_or_device_is_refused(folder, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=r'model.device is "cuda", but torch sees no CUDA device'):
        load_base(ModelSettings(base=str(folder), device="cuda"))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    with pytest.raises(ModelError, match="its tokenizer cannot be loaded"):
        load(folder)


def test_a_tokenizer_larger_than_the_model_is_refused(folder, tokenizer):
    tokenizer.add_tokens([f"extra{index}" for index in range(20)])
    tokenizer.save_pretrained(folder)
    with pytest.raises(ModelError, match="the tokenizer has 62 tokens but the model only 48 rows"):
        load(folder)


def test_remote_code_is_not_run_unasked(folder):
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "model_type": "no_such_type",
        "auto_map": {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"},
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "code.py").write_text("raise SystemExit('remote code ran')")
    with pytest.raises(ModelError, match=r"set model.trust_remote_code=true if you trust it"):
        load(folder)


class Pwned:
    """Pickled: makes a file when it is read."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return (Path.touch, (self.place,))


def point_to(folder, name):
    """Let an index name one file for every weight, and nothing else be there that would be read."""
    (folder / "model.safetensors").rename(folder / "other.safetensors")
    keys = load_file(folder / "other.safetensors")
    index = {"metadata": {}, "weight_map": dict.fromkeys(keys, name)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize("is_evil", [False, True])
def test_an_index_that_names_pickled_weights_is_refused(folder, tmp_path, is_evil):
    weights = Pwned(tmp_path / "pwned") if is_evil else load_file(folder / "model.safetensors")
    point_to(folder, "pytorch_model.bin")
    torch.save(weights, folder / "pytorch_model.bin")
    with pytest.raises(
        ModelError, match=r"names 'pytorch_model.bin', which is no safetensors file .*pickled weights are"
    ):
        load(folder)
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("name", ["../other.safetensors", "/tmp/x.safetensors", "sub/x.safetensors", "..", "x.bin", ""])
def test_an_index_that_leads_out_of_the_folder_or_to_no_weights_is_refused(folder, name):
    point_to(folder, name)
    with pytest.raises(ModelError, match="which is no safetensors file of its folder"):
        load(folder)


@pytest.mark.parametrize("content", ["{", "[]", '{"weight_map": []}', "[" * 100_000, '{"weight_map": {"a": {}}}'])
def test_a_damaged_index_is_one_line(folder, content):
    point_to(folder, "x.safetensors")
    (folder / "model.safetensors.index.json").write_text(content)
    with pytest.raises(ModelError, match=r"index\.json (cannot be used|names)") as caught:
        load(folder)
    assert "\n" not in str(caught.value)


def test_weights_that_the_configuration_names_by_another_name_are_refused(folder, tmp_path):
    torch.save(Pwned(tmp_path / "pwned"), folder / "adapter_model.bin")
    change_config(folder, transformers_weights="adapter_model.bin")
    with pytest.raises(ModelError, match=r"names other weights \(transformers_weights: 'adapter_model.bin'\)"):
        load(folder)
    assert not (tmp_path / "pwned").exists()


def test_a_base_with_an_adapter_in_its_folder_is_refused_and_not_quietly_another_model(folder):
    adapter = {
        "peft_type": "LORA",
        "base_model_name_or_path": "x",
        "r": 1,
        "lora_alpha": 1,
        "target_modules": ["q_proj"],
    }
    (folder / "adapter_config.json").write_text(json.dumps(adapter))
    with pytest.raises(ModelError, match=r"holds an adapter beside the model .*: give a folder without"):
        load(folder)


@pytest.mark.parametrize("kernels", ["flash_attention_2", "kernels-community/flash-attn2", "someone/kernels"])
def test_the_kernels_that_a_configuration_asks_for_are_left_out(folder, kernels):
    expected = load(folder).model.config._attn_implementation
    change_config(folder, attn_implementation=kernels, _attn_implementation=kernels)
    assert load(folder).model.config._attn_implementation == expected


@pytest.mark.parametrize(
    "changes", [{"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}, {"hidden_size": "x"}]
)
def test_a_configuration_that_the_library_cannot_serve_is_one_line(folder, changes):
    change_config(folder, **changes)
    with pytest.raises(
        ModelError, match=r"model: its (weights cannot be loaded|config\.json cannot be used)"
    ) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer_config.json"])
def test_a_file_that_is_nested_without_end_is_one_line(folder, name):
    (folder / name).write_text("[" * 100_000)
    with pytest.raises(ModelError, match="recursion"):
        load(folder)


def change_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_composite_model_is_loaded_for_its_text_part(tmp_path, tokenizer, gemma4_config):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        whole = Gemma4ForConditionalGeneration(Gemma4Config(**gemma4_config)).eval()
    whole.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    base = load(tmp_path)
    assert base.model.config.model_type == "gemma4_text"
    assert "Conditional" not in type(base.model).__name__
    ids = torch.tensor([[3, 5, 7, 11]])
    with torch.no_grad():
        torch.testing.assert_close(base.model(ids).logits, whole(input_ids=ids).logits)


def test_the_embedded_base_loads_where_it_is_installed():
    try:
        folder = find_model_folder("quickstart")
    except ModelError as error:
        assert "embedded base is not part of this installation" in str(error)  # noqa: PT017 - both ends are right
        return
    assert AutoModelForCausalLM.from_pretrained(folder).num_parameters() < 1_000_000
