"""Adapter folders: readable by PEFT alone, tied to their base, exact to the bit."""

from __future__ import annotations

import json

import pytest
import torch
from peft import PeftModel
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from agon.errors import ModelError
from agon.model.storage import read_adapter


def test_a_saved_adapter_loads_in_peft_alone_and_says_the_same(make_base, make_pair, randomise, logits, tmp_path):
    pair = make_pair(make_base())
    randomise(pair, "A")
    pair.save("A", tmp_path)
    alone = PeftModel.from_pretrained(make_base().model, tmp_path)
    with pair.sampling("A") as model:
        torch.testing.assert_close(logits(alone), logits(model), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(logits(alone), logits(make_base().model), atol=0.1)
    assert {path.name for path in tmp_path.iterdir()} == {"adapter_config.json", "adapter_model.safetensors"}


def test_an_adapter_of_a_bfloat16_base_is_saved_in_float32(make_base, make_pair, randomise, tmp_path):
    pair = make_pair(make_base(dtype=torch.bfloat16))
    randomise(pair, "A")
    pair.save("A", tmp_path)
    assert {tensor.dtype for tensor in load_file(tmp_path / "adapter_model.safetensors").values()} == {torch.float32}


def test_saving_and_loading_is_exact_to_the_bit_and_keeps_the_version(make_base, make_pair, randomise, tmp_path):
    pair = make_pair()
    randomise(pair, "B")
    pair.count_step("B")
    pair.count_step("B")
    pair.save("B", tmp_path)
    other = make_pair(make_base(), seed=9)
    other.load("B", tmp_path)
    assert other.fingerprint("B") == pair.fingerprint("B")
    assert other.version("B") == 2


def test_the_file_names_its_base_and_another_base_is_refused(make_base, make_pair, tmp_path):
    pair = make_pair()
    pair.save("A", tmp_path)
    with safe_open(tmp_path / "adapter_model.safetensors", framework="pt") as file:
        assert file.metadata()["agon_base_sha256"] == pair.base.identity.sha256
    other = make_pair(make_base(seed=1))
    with pytest.raises(ModelError, match=r"belongs to the base tiny .*set model.base to its own"):
        other.load("A", tmp_path)
    with pytest.raises(ModelError, match="belongs to the base"):
        other.add_frozen("past", tmp_path)
    assert other.names == ("A", "B")


def test_a_key_without_its_prefix_is_named(make_pair, tmp_path):
    # T16: peft's own loader would leave that layer at its start and say nothing that stops a run.
    pair = make_pair()
    pair.save("A", tmp_path)
    path = tmp_path / "adapter_model.safetensors"
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    tensors = load_file(path)
    key = sorted(tensors)[3]
    tensors[key.removeprefix("base_model.model.")] = tensors.pop(key)
    save_file(tensors, path, metadata=metadata)
    before = pair.fingerprint("A")
    with pytest.raises(ModelError) as caught:
        pair.load("A", tmp_path)
    assert f"lacks 1 keys (first: {key})" in str(caught.value)
    assert f"has 1 unexpected keys (first: {key.removeprefix('base_model.model.')})" in str(caught.value)
    with pytest.raises(ModelError, match="lacks 1 keys"):
        pair.add_frozen("past", tmp_path)
    assert pair.names == ("A", "B")
    assert pair.fingerprint("A") == before


def test_another_rank_and_variants_of_lora_are_refused(make_base, make_pair, tmp_path):
    make_pair(rank=8).save("A", tmp_path)
    pair = make_pair()
    with pytest.raises(ModelError, match="has rank 8 and alpha 8, but the run's adapters have rank 4"):
        pair.load("A", tmp_path)
    pair.add_frozen("past", tmp_path)  # a frozen adapter may have its own rank
    assert pair.sites[0].down("past").shape[0] == 8
    config_path = tmp_path / "adapter_config.json"
    config = json.loads(config_path.read_text())
    for change, message in (
        ({"use_rslora": True}, "uses use_rslora"),
        ({"lora_alpha": 0}, "lora_alpha 0, so it would do nothing"),
        ({"peft_type": "IA3"}, "is a IA3 adapter"),
    ):
        config_path.write_text(json.dumps(config | change))
        with pytest.raises(ModelError, match=message):
            pair.load("A", tmp_path)


def test_missing_and_damaged_files_are_named(make_pair, tmp_path):
    pair = make_pair()
    with pytest.raises(ModelError, match=r"has no adapter_config\.json"):
        pair.load("A", tmp_path / "nowhere")
    pair.save("A", tmp_path)
    weights = tmp_path / "adapter_model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-100])
    with pytest.raises(ModelError, match=r"is damaged .*use another checkpoint"):
        pair.load("A", tmp_path)
    weights.rename(tmp_path / "adapter_model.bin")
    with pytest.raises(ModelError, match=r"has no adapter_model\.safetensors \(pickled weights are not read\)"):
        pair.load("A", tmp_path)
    weights.write_bytes(whole)
    (tmp_path / "adapter_config.json").write_text("{")
    with pytest.raises(ModelError, match=r"adapter_config\.json cannot be used"):
        pair.load("A", tmp_path)
    (tmp_path / "adapter_config.json").write_text("[" * 100_000)
    with pytest.raises(ModelError, match=r"adapter_config\.json cannot be used"):
        pair.load("A", tmp_path)


@pytest.mark.parametrize("version", ["", "-1", "1e3", "9" * 5000, "①"])
def test_an_adapter_that_counts_no_steps_is_refused(make_pair, tmp_path, version):
    pair = make_pair()
    pair.save("A", tmp_path)
    path = tmp_path / "adapter_model.safetensors"
    with safe_open(path, framework="pt") as file:
        metadata = {**file.metadata(), "agon_version": version}
    save_file(load_file(path), path, metadata=metadata)
    with pytest.raises(ModelError, match=r"says it has taken .* optimiser steps"):
        pair.load("A", tmp_path)


def test_an_adapter_that_would_draw_its_weights_by_another_files_numbers_is_read_from_its_own(make_pair, tmp_path):
    pair = make_pair()
    pair.save("A", tmp_path)
    config_path = tmp_path / "adapter_config.json"
    raw = {**json.loads(config_path.read_text()), "init_lora_weights": "eva"}
    config_path.write_text(json.dumps(raw))
    assert read_adapter(tmp_path, pair.base.identity).config.init_lora_weights is True


def test_an_adapter_saved_by_peft_is_taken_for_the_base_it_names(make_base, make_pair, randomise, tmp_path):
    pair = make_pair()
    randomise(pair, "A")
    pair.save("A", tmp_path)
    path = tmp_path / "adapter_model.safetensors"
    save_file(load_file(path), path, metadata={"format": "pt"})
    other = make_pair(make_base())
    other.load("A", tmp_path)
    assert other.fingerprint("A") == pair.fingerprint("A")
    config_path = tmp_path / "adapter_config.json"
    config_path.write_text(config_path.read_text().replace('"tiny"', '"another/base"'))
    with pytest.raises(ModelError, match="names the base 'another/base', not 'tiny'"):
        other.load("A", tmp_path)
