"""Adapters in the weights of their base, against PEFT's own merge and against rounding worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from peft import LoraConfig, PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from agon.errors import ModelError
from agon.model.merge import MergePlan, text_path, updates_of
from agon.model.shards import WEIGHTS_FILE, StoredModel
from agon.model.storage import StoredAdapter

PREFIX = "base_model.model."


class Config(SimpleNamespace):
    """What a plan asks of a configuration."""

    def get_text_config(self):
        return getattr(self, "text_config", self)


def adapter_of(factors, *, rank=1, alpha=1.0):
    """`factors` are (A-matrix, B-matrix) by the path of the layer."""
    tensors = {}
    for path, (down, up) in factors.items():
        tensors[f"{PREFIX}{path}.lora_A.weight"] = down
        tensors[f"{PREFIX}{path}.lora_B.weight"] = up
    return StoredAdapter(LoraConfig(r=rank, lora_alpha=alpha), tensors, version=1)


def plan_of(folder, weights, factors, *, config=None, **scale):
    folder.mkdir(exist_ok=True)
    save_file(weights, folder / WEIGHTS_FILE)
    return MergePlan(StoredModel(folder), adapter_of(factors, **scale), config=config or Config())


def one(rows):
    return torch.tensor(rows, dtype=torch.float32)


def test_a_merged_model_is_the_one_that_peft_merges(make_base, make_pair, randomise, logits, tmp_path):
    pair = make_pair(make_base())
    randomise(pair, "A")
    pair.save("A", tmp_path / "A")
    make_base().model.save_pretrained(tmp_path / "base")
    adapter = StoredAdapter(pair._peft.peft_config["A"], load_file(tmp_path / "A" / "adapter_model.safetensors"), 0)
    plan = MergePlan(StoredModel(tmp_path / "base"), adapter, config=make_base().model.config)
    (tmp_path / "to").mkdir()
    rounding = plan.write(tmp_path / "to", None)
    expected = PeftModel.from_pretrained(make_base().model, tmp_path / "A").merge_and_unload().state_dict()
    written = load_file(tmp_path / "to" / WEIGHTS_FILE)
    assert written.keys() == load_file(tmp_path / "base" / WEIGHTS_FILE).keys()
    for name, tensor in written.items():
        torch.testing.assert_close(tensor, expected[name], rtol=0, atol=1e-6)
    assert rounding.num_weights == sum(site.weight.numel() for site in pair.sites)
    assert (rounding.changed_share, rounding.lost) == (1.0, 0.0)


def test_the_sum_is_made_in_float32_and_rounded_once(tmp_path):
    # Above 1 bfloat16 counts in steps of 4/512, and alpha / rank is 2. 512 + 2·1 = 514 and 512 + 2·3 = 518 both lie halfway: the even
    # neighbours are 512 and 520.
    base = {"l.weight": one([[1.0, 1.0]]).to(torch.bfloat16)}
    factors = {"l": (one([[1 / 512, 3 / 512]]), one([[1.0]]))}
    plan = plan_of(tmp_path / "from", base, factors, alpha=2.0)
    (tmp_path / "to").mkdir()
    rounding = plan.write(tmp_path / "to", None)
    written = load_file(tmp_path / "to" / WEIGHTS_FILE)["l.weight"]
    assert written.dtype == torch.bfloat16
    assert (written.float() * 512).tolist() == [[512.0, 520.0]]
    # Lost are 2 and -2 of an update of 2 and 6: the root of 8 over the root of 40.
    assert (rounding.num_weights, rounding.changed_share) == (2, 0.5)
    assert rounding.lost == pytest.approx((8 / 40) ** 0.5)
    (tmp_path / "wide").mkdir()
    whole = plan.write(tmp_path / "wide", torch.float32)
    written = load_file(tmp_path / "wide" / WEIGHTS_FILE)["l.weight"]
    assert written.dtype == torch.float32
    assert (written * 512).tolist() == [[514.0, 518.0]]
    assert (whole.changed_share, whole.lost) == (1.0, 0.0)


def test_an_update_of_zero_says_so(tmp_path):
    plan = plan_of(tmp_path / "from", {"l.weight": torch.ones(2, 2)}, {"l": (torch.ones(1, 2), torch.zeros(2, 1))})
    (tmp_path / "to").mkdir()
    assert plan.write(tmp_path / "to", torch.float16).is_zero


def test_what_is_not_adapted_stays_and_whole_numbers_are_never_rounded(tmp_path):
    kept = torch.tensor([[0.1, 3.0]])
    base = {"l.weight": torch.ones(1, 1), "norm": kept, "steps": torch.tensor([300], dtype=torch.int64)}
    plan = plan_of(tmp_path / "from", base, {"l": (torch.ones(1, 1), torch.ones(1, 1))})
    for name, dtype in (("same", None), ("half", torch.bfloat16)):
        (tmp_path / name).mkdir()
        plan.write(tmp_path / name, dtype)
        written = load_file(tmp_path / name / WEIGHTS_FILE)
        assert torch.equal(written["norm"], kept if dtype is None else kept.to(dtype))
        assert written["steps"].tolist() == [300]
    assert plan.num_bytes(None) == 4 + 8 + 8
    assert plan.num_bytes(torch.bfloat16) == 2 + 4 + 8


def test_a_number_too_large_for_the_format_is_refused(tmp_path):
    plan = plan_of(
        tmp_path / "from",
        {"l.weight": torch.ones(1, 1), "n": torch.tensor([1e5])},
        {"l": (torch.ones(1, 1), torch.ones(1, 1))},
    )
    (tmp_path / "to").mkdir()
    with pytest.raises(ModelError, match=r"n has numbers up to 1e\+05, too large for f16: take bf16 or f32"):
        plan.write(tmp_path / "to", torch.float16)


def test_an_adapted_output_layer_that_shares_the_embedding_gets_a_weight_of_its_own(tmp_path):
    base = {"model.embed_tokens.weight": torch.ones(3, 2), "model.l.weight": torch.ones(2, 2)}
    plan = plan_of(
        tmp_path / "from",
        base,
        {"lm_head": (torch.ones(1, 2), torch.ones(3, 1))},
        config=Config(tie_word_embeddings=True),
    )
    assert plan.unties_head
    (tmp_path / "to").mkdir()
    plan.write(tmp_path / "to", None)
    written = load_file(tmp_path / "to" / WEIGHTS_FILE)
    assert written["lm_head.weight"].unique().tolist() == [2.0]
    assert written["model.embed_tokens.weight"].unique().tolist() == [1.0]


def test_a_base_saved_without_its_output_layer_has_shorter_names(tmp_path):
    factors = {"model.layers.0.q": (torch.ones(1, 2), torch.ones(2, 1))}
    plan = plan_of(tmp_path / "from", {"layers.0.q.weight": torch.ones(2, 2)}, factors)
    assert plan.sources["model.layers.0.q"].write == "layers.0.q.weight"


def test_the_text_part_of_a_composite_model_is_found_and_nothing_else(tmp_path):
    base = {
        "model.language_model.layers.0.q.weight": torch.ones(2, 2),
        "model.visual.layers.0.q.weight": torch.ones(2, 2),
    }
    composite = Config(text_config=Config())
    factors = {"model.layers.0.q": (torch.ones(1, 2), torch.ones(2, 1))}
    plan = plan_of(tmp_path / "from", base, factors, config=composite)
    assert plan.sources["model.layers.0.q"].write == "model.language_model.layers.0.q.weight"
    with pytest.raises(ModelError, match=r"no tensors for the adapted layer model.layers.0.q"):
        plan_of(tmp_path / "from", base, factors)


def test_a_layer_of_a_composite_model_is_found_by_its_path_in_the_text_model():
    known = ["model.language_model.layers.0.q", "model.vision.layers.0.q", "lm_head"]
    assert text_path("model.layers.0.q", known) == "model.language_model.layers.0.q"
    assert text_path("lm_head", known) == "lm_head"
    with pytest.raises(ModelError, match=r"no layers for model.layers.1.q"):
        text_path("model.layers.1.q", known)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({"qkv.weight": torch.ones(6, 2)}, r"no tensors for the adapted layer q \(fused or renamed layers\)"),
        ({"q.weight": torch.ones(6, 2)}, r"q.weight is F32 of shape \(6, 2\), but .* a matrix of \(2, 2\)"),
        ({"q.weight": torch.ones(2, 2, dtype=torch.uint8)}, r"q.weight is U8 of shape"),
    ],
)
def test_weights_that_an_update_does_not_fit_are_refused(tmp_path, weights, words):
    with pytest.raises(ModelError, match=words) as caught:
        plan_of(tmp_path / "from", weights, {"q": (torch.ones(1, 2), torch.ones(2, 1))})
    assert "export the adapter without --merge" in str(caught.value)


def test_a_quantised_base_is_refused(tmp_path):
    config = Config(quantization_config={"bits": 4})
    factors = {"q": (torch.ones(1, 2), torch.ones(2, 1))}
    with pytest.raises(ModelError, match="is quantised"):
        plan_of(tmp_path / "from", {"q.weight": torch.ones(2, 2)}, factors, config=config)


def test_what_is_no_pair_of_factors_is_refused():
    strange = StoredAdapter(LoraConfig(r=1), {f"{PREFIX}q.lora_magnitude_vector": torch.ones(1)}, 0)
    with pytest.raises(ModelError, match="which is no factor of a linear layer"):
        updates_of(strange)
    half = StoredAdapter(LoraConfig(r=1), {f"{PREFIX}q.lora_A.weight": torch.ones(1, 2)}, 0)
    with pytest.raises(ModelError, match="one of two factors of q"):
        updates_of(half)


def test_a_merged_folder_of_several_files_loads_in_transformers(make_base, make_pair, randomise, logits, tmp_path):
    pair = make_pair(make_base(tie_word_embeddings=True))
    randomise(pair, "B")
    pair.save("B", tmp_path / "B")
    bare = make_base(tie_word_embeddings=True).model
    bare.save_pretrained(tmp_path / "base", max_shard_size="8KB")
    bare.config.save_pretrained(tmp_path / "to")
    adapter = StoredAdapter(pair._peft.peft_config["B"], load_file(tmp_path / "B" / "adapter_model.safetensors"), 0)
    MergePlan(StoredModel(tmp_path / "base"), adapter, config=bare.config).write(tmp_path / "to", None)
    with pair.sampling("B") as model, torch.no_grad():
        torch.testing.assert_close(
            logits(AutoModelForCausalLM.from_pretrained(tmp_path / "to")), logits(model), rtol=1e-5, atol=1e-5
        )
