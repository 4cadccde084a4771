"""Exports of whole runs, loaded back by PEFT and transformers alone."""

from __future__ import annotations

import errno
import json

import pytest
import torch
from peft import AutoPeftModelForCausalLM, PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, Gemma4Config, Gemma4ForConditionalGeneration

from agon.config import AdapterSettings, ModelSettings
from agon.errors import ConfigError, ModelError, RunError
from agon.export import run as export_module
from agon.export.records import Wish
from agon.export.run import export_run
from agon.model.base import load_base
from agon.model.checkpoint import load_adapters
from agon.model.pair import AdapterPair
from agon.model.shards import StoredModel
from agon.runs.parent import create_parent

ADAPTER_FILES = ["README.md", "adapter_config.json", "adapter_model.safetensors", "agon_export.json"]
TOKENIZER_FILES = ["tokenizer.json", "tokenizer_config.json"]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def own_logits(base, run, name, logits, **adapter):
    """What the run's own adapter says, computed as a run does it."""
    settings = AdapterSettings(**{"rank": 4, "alpha": 8.0, "init": "standard", **adapter})
    pair = AdapterPair.create(load_base(ModelSettings(base=str(base), device="cpu")), settings, seed=3)
    load_adapters(pair, run / "checkpoints" / "step-000002")
    with pair.sampling(name) as model:
        return logits(model)


def test_an_adapter_loads_in_peft_and_says_what_it_said_in_the_run(make_run, make_base, logits, tmp_path):
    base = make_base()
    run = make_run(base)
    exported = export_run(run, tmp_path / "out", Wish(adapter="B", base=str(base)))
    assert names(tmp_path / "out") == sorted(ADAPTER_FILES + TOKENIZER_FILES)
    expected = own_logits(base, run, "B", logits)
    # By the name that --base gave.
    loaded = AutoPeftModelForCausalLM.from_pretrained(tmp_path / "out")
    torch.testing.assert_close(logits(loaded), expected, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(logits(AutoModelForCausalLM.from_pretrained(base)), expected, atol=0.05)
    assert len(AutoTokenizer.from_pretrained(tmp_path / "out")) == 42
    assert exported.notes == ("B is one half of a pair that was trained to be deployed together: export A as well",)


def test_both_adapters_lie_in_folders_of_their_own_with_a_card_of_the_pair(make_run, make_base, logits, tmp_path):
    base = make_base()
    run = make_run(base)
    exported = export_run(run, tmp_path / "out", Wish())
    assert names(tmp_path / "out") == ["A", "B", "README.md", "agon_export.json"]
    for name in ("A", "B"):
        loaded = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), tmp_path / "out" / name)
        torch.testing.assert_close(logits(loaded), own_logits(base, run, name, logits), rtol=1e-4, atol=1e-5)
    assert [(piece.adapter, piece.folder) for piece in exported.pieces] == [("A", "A"), ("B", "B")]
    (note,) = exported.notes
    assert "names its base 'base', after its folder here: --base NAME" in note


def test_no_file_tells_of_folders_of_this_machine(make_run, make_base, tmp_path):
    run = make_run(make_base())
    for kind, wish in {"adapters": Wish(), "models": Wish(merge=True)}.items():
        out = tmp_path / "out" / kind
        export_run(run, out, wish)
        for path in (path for path in out.rglob("*") if path.is_file()):
            assert str(tmp_path).encode() not in path.read_bytes(), path


@pytest.mark.parametrize("is_tied", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(None, 1e-5), ("f16", 2e-2), ("bf16", 2e-1)])
def test_a_merged_model_loads_in_transformers_and_says_the_same(
    make_run, make_base, logits, tmp_path, is_tied, dtype, tolerance
):
    base = make_base(tie_word_embeddings=is_tied)
    run = make_run(base)
    exported = export_run(run, tmp_path / "out", Wish(adapter="A", merge=True, dtype=dtype))
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype=torch.float32)
    torch.testing.assert_close(logits(loaded), own_logits(base, run, "A", logits), rtol=0, atol=tolerance)
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
def test_an_adapted_output_layer_of_a_tied_base_is_untied(make_run, make_base, logits, tmp_path):
    base = make_base(tie_word_embeddings=True)
    run = make_run(base, adapter={"targets": ("q_proj", "lm_head")})
    export_run(run, tmp_path / "out", Wish(adapter="A", merge=True))
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    expected = own_logits(base, run, "A", logits, targets=("q_proj", "lm_head"))
    torch.testing.assert_close(logits(loaded), expected, rtol=1e-4, atol=1e-5)
    before = load_file(base / "model.safetensors")["model.embed_tokens.weight"]
    assert torch.equal(loaded.model.embed_tokens.weight, before)


def test_the_text_part_of_a_composite_base_is_exported_where_it_belongs(make_run, make_base, logits, tmp_path):
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
    expected = own_logits(base, run, "A", logits, targets=("q_proj", "o_proj", "down_proj"))
    export_run(run, tmp_path / "adapter", Wish(adapter="A"))
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


def test_a_base_that_is_gone_leaves_the_adapter(make_run, make_base, tmp_path):
    base = make_base()
    run = make_run(base)
    base.rename(tmp_path / "elsewhere")
    exported = export_run(run, tmp_path / "out", Wish(adapter="A", base="owner/name"))
    assert names(tmp_path / "out") == ADAPTER_FILES
    assert "without the base's tokenizer" in exported.notes[0]
    config = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert (config["base_model_name_or_path"], config["r"], config["lora_alpha"]) == ("owner/name", 4, 8)
    with pytest.raises(ModelError, match="does not exist"):
        export_run(run, tmp_path / "merged", Wish(adapter="A", merge=True))
    assert not (tmp_path / "merged").exists()


def test_another_base_in_the_bases_place_is_noticed(make_run, make_base, tmp_path):
    base = make_base()
    run = make_run(base)
    make_base(hidden_size=64)
    exported = export_run(run, tmp_path / "out", Wish(adapter="A"))
    assert "is not the base that this run was trained on" in exported.notes[0]
    assert names(tmp_path / "out") == ADAPTER_FILES
    with pytest.raises(ModelError, match=r"is not the base that this run was trained on .*put that one there"):
        export_run(run, tmp_path / "merged", Wish(adapter="A", merge=True))


def test_rounding_that_takes_much_of_the_update_is_said(make_run, make_base, tmp_path):
    base = make_base(dtype=torch.bfloat16)
    run = make_run(base, scale=0.004)
    exported = export_run(run, tmp_path / "out", Wish(adapter="A", merge=True))
    (piece,) = exported.pieces
    assert piece.dtype == "bf16"
    assert piece.rounding.changed_share < 0.5
    assert piece.rounding.lost > 0.5
    assert any("rounding to bf16 took" in note and "--dtype f32 keeps it all" in note for note in exported.notes)
    kept = export_run(run, tmp_path / "kept", Wish(adapter="A", merge=True, dtype="f32"))
    assert kept.pieces[0].rounding.lost == 0.0
    assert not any("rounding" in note for note in kept.notes)


def test_an_adapter_that_changes_nothing_is_said(make_run, make_base, tmp_path):
    exported = export_run(make_run(make_base(), scale=0.0), tmp_path / "out", Wish(adapter="A", merge=True))
    assert any("A changes nothing" in note for note in exported.notes)


def test_an_unchecked_model_says_so(make_run, make_base, tmp_path, monkeypatch):
    monkeypatch.setattr(export_module, "expected_logits", None)
    exported = export_run(make_run(make_base()), tmp_path / "out", Wish(adapter="A", merge=True, is_unchecked=True))
    assert exported.pieces[0].check is None
    assert any("were not compared" in note for note in exported.notes)
    assert "were not compared" in (tmp_path / "out" / "README.md").read_text()


def test_a_merge_that_says_something_else_is_refused_and_leaves_nothing(make_run, make_base, tmp_path, monkeypatch):
    read = StoredModel.read
    written = tmp_path / "out"

    def wrong(self, name):
        # The weights as they are read for writing, not as they are compared with the loaded base's.
        tensor = read(self, name)
        is_writing = any(tmp_path.glob(".out.agon-tmp-*/model.safetensors"))
        return (
            tensor * 1.5
            if is_writing and name.endswith("mlp.down_proj.weight") and self.folder.name == "base"
            else tensor
        )

    monkeypatch.setattr(StoredModel, "read", wrong)
    with pytest.raises(
        ModelError, match=r"logits that differ from base and adapter by .* more than the 0.0001 that float32"
    ):
        export_run(make_run(make_base()), written, Wish(adapter="A", merge=True))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "run"]


def test_files_that_hold_other_weights_than_the_model_are_refused(make_run, make_base, tmp_path, monkeypatch):
    read = StoredModel.read
    monkeypatch.setattr(StoredModel, "read", lambda self, name: read(self, name) + 1.0)
    with pytest.raises(ModelError, match=r"hold other numbers for model.layers.0.* than the loaded base"):
        export_run(make_run(make_base()), tmp_path / "out", Wish(adapter="A", merge=True))
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_something_is_refused_and_an_empty_one_is_taken(make_run, make_base, tmp_path):
    run = make_run(make_base())
    out = tmp_path / "out"
    out.mkdir()
    export_run(run, out, Wish(adapter="A"))
    with pytest.raises(RunError, match=r"is not empty \(README.md, adapter_config.json, .*\): give another --out"):
        export_run(run, out, Wish(adapter="A"))
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="file"):
        export_run(run, tmp_path / "file", Wish(adapter="A"))
    with pytest.raises(RunError, match="is not empty"):
        export_run(run, run, Wish(adapter="A"))


@pytest.mark.parametrize(
    ("error", "told", "words"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device"),
            RunError,
            "the disk is full: free some space, then try again",
        ),
        (KeyboardInterrupt(), KeyboardInterrupt, None),
    ],
)
@pytest.mark.parametrize("wish", [Wish(), Wish(merge=True)])
def test_a_full_disk_and_an_interrupt_leave_nothing(
    make_run, make_base, tmp_path, monkeypatch, wish, error, told, words
):
    run = make_run(make_base())
    before = sorted(tmp_path.rglob("*"))
    write = export_module._write_card

    def failing(plan, target, *, name, **rest):
        if name == "B":
            raise error
        write(plan, target, name=name, **rest)

    monkeypatch.setattr(export_module, "_write_card", failing)
    with pytest.raises(told, match=words):
        export_run(run, tmp_path / "deep" / "out", wish)
    assert sorted(path for path in tmp_path.rglob("*") if path.name != "deep") == before


def test_a_disk_without_room_is_told_before_anything_is_written(make_run, make_base, tmp_path, monkeypatch):
    monkeypatch.setattr("agon.runs.space.shutil.disk_usage", lambda place: type("Usage", (), {"free": 1_000_000}))
    with pytest.raises(RunError, match=r"has 1 MB of free disk, but 64.1 MB are needed"):
        export_run(make_run(make_base()), tmp_path / "out", Wish(adapter="A", merge=True))


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (Wish(dtype="f32"), "--dtype is for merged weights"),
        (Wish(is_unchecked=True), "--unchecked is for merged weights"),
        (Wish(gguf_converter="x"), "--gguf-converter was given without --gguf"),
        (Wish(base="a\nb"), "which is no name of a model"),
        (Wish(merge=True, dtype="int4"), "--dtype is 'int4', which is not known; known: bf16, f16, f32"),
    ],
)
def test_options_without_effect_are_refused(make_run, make_base, tmp_path, wish, words):
    with pytest.raises(ConfigError, match=words):
        export_run(make_run(make_base()), tmp_path / "out", wish)


@pytest.fixture
def converter(tmp_path):
    """Stands in for llama.cpp's: writes a file with as many tensors as the model has, if they are of the type asked for."""
    path = tmp_path / "convert_hf_to_gguf.py"
    path.write_text(
        "import json, struct, sys\n"
        "data = open(sys.argv[1] + '/model.safetensors', 'rb').read(); open(sys.argv[1] + '/tokenizer.json').close()\n"
        "tensors = json.loads(data[8 : 8 + int.from_bytes(data[:8], 'little')]); del tensors['__metadata__']\n"
        "kinds = '-'.join(sorted({tensor['dtype'] for tensor in tensors.values()}))\n"
        "out = sys.argv[sys.argv.index('--outfile') + 1].format(ftype=kinds)\n"
        "open(out, 'wb').write(struct.pack('<4sIQ', b'GGUF', 3, len(tensors)))\n"
    )
    return path


@pytest.mark.parametrize(
    ("wish", "file", "others"),
    [
        # The base is in bf16: "auto" keeps that, any other type is rounded to once, by the converter.
        (Wish(gguf_type="auto"), "base-agon-A-BF16.gguf", []),
        (Wish(gguf_type="q8_0"), "base-agon-A-F32.gguf", []),
        (Wish(gguf_type="f16", dtype="f16"), "base-agon-A-F16.gguf", []),
        (Wish(gguf_type="f16", merge=True), "base-agon-A-BF16.gguf", ["config.json", "model.safetensors"]),
    ],
)
def test_a_gguf_file_is_made_of_the_merged_model_and_lies_beside_it_if_that_was_asked_for(
    make_run, make_base, tmp_path, converter, wish, file, others
):
    run = make_run(make_base(dtype=torch.bfloat16))
    wish = Wish("A", merge=wish.merge, dtype=wish.dtype, gguf_type=wish.gguf_type, gguf_converter=str(converter))
    exported = export_run(run, tmp_path / "out", wish)
    found = names(tmp_path / "out")
    if not others:
        assert found == ["README.md", "agon_export.json", file]
    assert {file, *others} <= set(found)
    (piece,) = exported.pieces
    assert (piece.gguf.name, piece.gguf.num_tensors) == (file, 21)
    assert (
        f"{file} was written by llama.cpp's converter with 21 tensors" in (tmp_path / "out" / "README.md").read_text()
    )


def test_a_failed_conversion_leaves_nothing_but_its_log(make_run, make_base, tmp_path, converter, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "logs"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "logs").mkdir()
    converter.write_text("raise SystemExit('Model MysteryForCausalLM is not supported')")
    run = make_run(make_base())
    with pytest.raises(
        ModelError, match=r"failed \(Model MysteryForCausalLM is not supported\): see .*agon-gguf-.*\.log"
    ):
        export_run(run, tmp_path / "out", Wish("A", gguf_type="f16", gguf_converter=str(converter)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", converter.name, "logs", "run"]
    monkeypatch.setattr("tempfile.tempdir", None)


def test_the_embedded_base_is_not_handed_to_llama_cpp(make_run, tmp_path, converter):
    run = make_run("quickstart")
    with pytest.raises(ConfigError, match=r"--gguf cannot be had for the embedded base: .*; use --merge"):
        export_run(run, tmp_path / "out", Wish("A", gguf_type="f16", gguf_converter=str(converter)))


def test_a_folder_of_several_runs_stands_for_its_default_run(make_run, make_base, tmp_path):
    create_parent(tmp_path / "parent", children=["grpo", "agon"], default="agon")
    make_run(make_base(), name="parent/agon", train={"seed": 8})
    assert export_run(tmp_path / "parent", tmp_path / "out", Wish("A")).trained.settings.train.seed == 8


def test_the_summary_holds_what_is_printed_but_for_where_it_is(make_run, make_base, tmp_path):
    exported = export_run(make_run(make_base()), tmp_path / "out", Wish(merge=True))
    tree = json.loads((tmp_path / "out" / "agon_export.json").read_text())
    assert {"out": str(tmp_path / "out"), **tree} == json.loads(json.dumps(exported.to_json()))
    assert [piece["adapter"] for piece in tree["adapters"]] == ["A", "B"]
    assert (tree["step"], tree["seed"], tree["method"], tree["deployed_as"]) == (2, 5, "agon", "cascade")
    assert tree["adapters"][0]["roles"] == ["drafter", "challenger"]
