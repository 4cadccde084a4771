"""A trained run through `agon export`, and back through PEFT and transformers alone."""

from __future__ import annotations

import json
from importlib import resources

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from agon.config import AdapterSettings, ModelSettings
from agon.countdown_text import draft_question
from agon.model.base import load_base
from agon.model.checkpoint import load_adapters
from agon.model.pair import AdapterPair

QUESTION = draft_question((12, 7, 5), 24)


@pytest.fixture(scope="module")
def run(agon, small, tmp_path_factory):
    """Two steps of Agon, at a rate that moves the adapters far from where they began."""
    out = tmp_path_factory.mktemp("runs") / "agon"
    sets = ["--set", "train.steps=2", "--set", "train.learning_rate=0.02"]
    assert agon("train", "quickstart-agon", "--out", out, *small, *sets) == 0
    return out


@pytest.fixture(scope="module")
def pair(run):
    base = load_base(ModelSettings(device="cpu"))
    pair = AdapterPair.create(base, AdapterSettings(init="standard"), seed=0)
    load_adapters(pair, run / "checkpoints" / "step-000002")
    return pair


def one_line(capsys):
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1, told
    return told[0]


def test_an_exported_adapter_gives_the_pairs_logits_in_peft(agon, run, pair, tmp_path, capsys):
    assert agon("export", run, "--adapter", "A", "--out", tmp_path / "A") == 0
    said = capsys.readouterr()
    assert f"A -> {tmp_path / 'A'} (a PEFT adapter, " in said.out
    assert "A is one half of a pair that was trained to be deployed together: export B as well" in said.err
    assert "the embedded base is nowhere but in agon: --merge writes a model that needs no base" in said.err
    with resources.as_file(resources.files("agon") / "assets" / "quickstart-base") as folder:
        base = AutoModelForCausalLM.from_pretrained(folder)
    ids = AutoTokenizer.from_pretrained(tmp_path / "A")(f"<user> {QUESTION} <assistant>", return_tensors="pt").input_ids
    with torch.no_grad():
        bare = base(ids).logits
        alone = PeftModel.from_pretrained(base, tmp_path / "A")(ids).logits
        with pair.sampling("A") as model:
            own = model(ids).logits
    torch.testing.assert_close(alone, own, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(bare, own, atol=0.05)


def test_a_merged_model_solves_as_the_runs_adapter_does(agon, run, pair, tmp_path, capsys):
    assert agon("export", run, "--merge", "--json", "--out", tmp_path / "out") == 0
    document = json.loads(capsys.readouterr().out)
    assert [(piece["adapter"], piece["dtype"]) for piece in document["adapters"]] == [("A", "f32"), ("B", "f32")]
    assert all(piece["check"]["error"] < 1e-5 < piece["check"]["effect"] for piece in document["adapters"])
    for name in ("A", "B"):
        model = AutoModelForCausalLM.from_pretrained(tmp_path / "out" / name)
        tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out" / name)
        ids = tokenizer.apply_chat_template(
            [{"role": "user", "content": QUESTION}], add_generation_prompt=True, return_tensors="pt", return_dict=False
        )
        options = {"max_new_tokens": 44, "do_sample": False}
        mask = torch.ones_like(ids)
        merged = model.generate(ids, attention_mask=mask, **options)
        with pair.sampling(name) as own:
            expected = own.generate(ids, attention_mask=mask, pad_token_id=0, **options)
        assert merged.tolist() == expected.tolist()
        assert merged.shape[1] > ids.shape[1] + 5


def test_a_run_of_one_adapter_exports_it_and_no_other(agon, small, tmp_path, capsys):
    run = tmp_path / "grpo"
    assert agon("train", "quickstart-grpo", "--out", run, *small, "--set", "train.steps=1") == 0
    capsys.readouterr()
    assert agon("export", run, "--adapter", "b", "--out", tmp_path / "out") == 2
    assert "--adapter B was asked for, but this run (grpo) trained one adapter, A: leave it out" in one_line(capsys)
    assert agon("export", run, "--merge", "--dtype", "bf16", "--out", tmp_path / "out") == 0
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "out").dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--checkpoint", "7"], 1, "has no checkpoint of step 7 (there: 2)"),
        (["--gguf"], 2, "--gguf cannot be had for the embedded base"),
        (["--gguf-type", "f16"], 2, "--gguf-type was given without --gguf"),
        (["--merge", "--dtype", "int8"], 2, "--dtype is 'int8', which is not known; known: bf16, f16, f32"),
        (
            ["--dtype", "f32"],
            2,
            "--dtype is for the weights that --merge writes, but an adapter is written as it was trained",
        ),
        (["--adapter", "C"], 2, "invalid choice: 'C'"),
    ],
)
def test_what_cannot_be_exported_is_told_in_one_line_and_leaves_nothing(agon, run, tmp_path, capsys, words, code, told):
    capsys.readouterr()
    assert agon("export", run, *words, "--out", tmp_path / "out") == code
    assert told in one_line(capsys)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_no_run_or_holds_something_is_refused(agon, run, tmp_path, capsys):
    assert agon("export", tmp_path, "--out", tmp_path / "out") == 1
    assert "is not a run folder" in one_line(capsys)
    (tmp_path / "mine").write_text("x")
    assert agon("export", run, "--out", tmp_path) == 1
    assert f"output folder {tmp_path} is not empty (mine): give another --out" in one_line(capsys)
