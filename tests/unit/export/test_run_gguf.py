"""Exports as GGUF, by a stand-in for llama.cpp's converter."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from agon.errors import ConfigError, ModelError
from agon.export.records import Wish
from agon.export.run import export_run


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def converter(tmp_path):
    """Stands in for llama.cpp's: writes a file that says how many tensors the model had, and in what number format."""
    path = tmp_path / "convert_hf_to_gguf.py"
    path.write_text(
        "import json, struct, sys\n"
        "data = open(sys.argv[1] + '/model.safetensors', 'rb').read(); open(sys.argv[1] + '/tokenizer.json').close()\n"
        "tensors = json.loads(data[8 : 8 + int.from_bytes(data[:8], 'little')]); del tensors['__metadata__']\n"
        "kinds = '-'.join(sorted({tensor['dtype'] for tensor in tensors.values()}))\n"
        "out = sys.argv[sys.argv.index('--outfile') + 1]\n"
        "open(out, 'wb').write(struct.pack('<4sIQ', b'GGUF', 3, len(tensors)) + kinds.encode())\n"
    )
    return path


@pytest.mark.parametrize(
    ("wish", "read", "others"),
    [
        # What the converter alone reads is in float32, so that weights are rounded once; the base is in bf16.
        (Wish(gguf_type="f16"), "F32", []),
        (Wish(gguf_type="q8_0"), "F32", []),
        (Wish(gguf_type="f16", merge=True), "BF16", ["config.json", "model.safetensors"]),
        (Wish(gguf_type="f16", merge=True, dtype="f16"), "F16", ["config.json", "model.safetensors"]),
    ],
)
def test_a_gguf_file_is_made_of_the_merged_model_and_lies_beside_it_if_that_was_asked_for(
    make_run, make_base, tmp_path, converter, wish, read, others
):
    run = make_run(make_base(dtype=torch.bfloat16))
    wish = replace(wish, adapter="A", gguf_converter=str(converter))
    exported = export_run(run, tmp_path / "out", wish)
    file = f"base-agon-A-{wish.gguf_type}.gguf"
    assert (tmp_path / "out" / file).read_bytes()[16:].decode() == read
    found = names(tmp_path / "out")
    if not others:
        assert found == ["README.md", "agon_export.json", file]
    assert {file, *others} <= set(found)
    (piece,) = exported.pieces
    assert (piece.gguf.name, piece.gguf.num_tensors) == (file, 21)
    assert f"{file} was written by llama.cpp's converter with 21" in (tmp_path / "out" / "README.md").read_text()


def test_what_the_converters_rounding_takes_is_measured_where_agon_knows_the_format(
    make_run, make_base, tmp_path, converter
):
    run = make_run(make_base(dtype=torch.bfloat16), scale=0.004)
    lost = {}
    for file_type in ("f32", "f16", "bf16", "q8_0"):
        wish = Wish("A", gguf_type=file_type, gguf_converter=str(converter), is_unchecked=True)
        exported = export_run(run, tmp_path / file_type, wish)
        (piece,) = exported.pieces
        assert piece.dtype == file_type
        lost[file_type] = None if piece.rounding is None else piece.rounding.lost
        is_told = any(
            f"rounding to {file_type} takes of A's update was not measured" in note for note in exported.notes
        )
        assert is_told == (file_type == "q8_0")
    # Half precision has three bits more than bfloat16.
    assert lost["f32"] == 0.0 < lost["f16"] < 0.75 * lost["bf16"]
    assert lost["q8_0"] is None


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
