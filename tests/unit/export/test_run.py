"""Exports of whole runs, loaded back by PEFT and transformers alone."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest
import torch
from peft import AutoPeftModelForCausalLM, PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from agon.audit.hardware import Memory
from agon.errors import ConfigError, ModelError, RunError
from agon.export import run as export_module
from agon.export.records import Wish
from agon.export.run import export_run
from agon.model.shards import StoredModel
from agon.runs.parent import create_parent

ADAPTER_FILES = ["README.md", "adapter_config.json", "adapter_model.safetensors", "agon_export.json"]
TOKENIZER_FILES = ["tokenizer.json", "tokenizer_config.json"]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_an_adapter_loads_in_peft_and_says_what_it_said_in_the_run(make_run, make_base, logits, own_logits, tmp_path):
    base = make_base()
    run = make_run(base)
    exported = export_run(run, tmp_path / "out", Wish(adapter="B", base=str(base)))
    assert names(tmp_path / "out") == sorted(ADAPTER_FILES + TOKENIZER_FILES)
    expected = own_logits(base, run, "B")
    # By the name that --base gave.
    loaded = AutoPeftModelForCausalLM.from_pretrained(tmp_path / "out")
    torch.testing.assert_close(logits(loaded), expected, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(logits(AutoModelForCausalLM.from_pretrained(base)), expected, atol=0.05)
    assert len(AutoTokenizer.from_pretrained(tmp_path / "out")) == 42
    assert exported.notes == ("B is one half of a pair that was trained to be deployed together: export A as well",)


def test_both_adapters_lie_in_folders_of_their_own_with_a_card_of_the_pair(
    make_run, make_base, logits, own_logits, tmp_path
):
    base = make_base()
    run = make_run(base)
    exported = export_run(run, tmp_path / "out", Wish())
    assert names(tmp_path / "out") == ["A", "B", "README.md", "agon_export.json"]
    for name in ("A", "B"):
        loaded = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), tmp_path / "out" / name)
        torch.testing.assert_close(logits(loaded), own_logits(base, run, name), rtol=1e-4, atol=1e-5)
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
    with pytest.raises(RunError, match=r"is not empty .*: give another --out$"):
        export_run(run, run, Wish(adapter="A"))


def test_the_working_directory_is_not_taken_from_under_the_user(make_run, make_base, tmp_path, monkeypatch):
    run = make_run(make_base())
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(RunError, match="is the working directory or a mount: give a new folder inside it"):
        export_run(run, Path(), Wish(adapter="A"))
    export_run(run, Path("new"), Wish(adapter="A"))
    assert (tmp_path / "here" / "new" / "adapter_config.json").is_file()


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


def test_a_machine_without_memory_is_told_before_anything_is_loaded(make_run, make_base, tmp_path, monkeypatch):
    monkeypatch.setattr("agon.export.plan.memory_bytes", lambda: Memory(2**40, 100_000))
    run = make_run(make_base())
    # 2 x 48 x 32 numbers of tokens, 2 x 8,512 of layers, 32 of the last norm: a half more than their 80,512 bytes.
    with pytest.raises(RunError, match=r"takes 117\.9 KiB of memory, .* but 97\.66 KiB are free: .* with --unchecked"):
        export_run(run, tmp_path / "out", Wish(adapter="A", merge=True))
    assert not (tmp_path / "out").exists()
    export_run(run, tmp_path / "out", Wish(adapter="A", merge=True, is_unchecked=True))


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (
            Wish(dtype="f32"),
            "--dtype is for the weights that --merge writes, but an adapter is written as it was trained",
        ),
        (Wish(gguf_type="f16", dtype="f32"), "but a GGUF file has its own, --gguf-type"),
        (Wish(is_unchecked=True), "--unchecked is for merged weights"),
        (Wish(gguf_converter="x"), "--gguf-converter was given without --gguf"),
        (Wish(base="a\nb"), "which is no name of a model"),
        (Wish(merge=True, dtype="int4"), "--dtype is 'int4', which is not known; known: bf16, f16, f32"),
    ],
)
def test_options_without_effect_are_refused(make_run, make_base, tmp_path, wish, words):
    with pytest.raises(ConfigError, match=words):
        export_run(make_run(make_base()), tmp_path / "out", wish)


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
