from __future__ import annotations

import gzip
import json
import re

import pytest
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from agon.metrics import METRICS
from agon.runs import read_json


def _lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run_folder_holds_what_scripts_rely_on(trained):
    config = json.loads((trained / "config.json").read_text())
    assert config["train"]["method"] == "agon"
    assert config["train"]["steps"] == 4
    manifest = json.loads((trained / "manifest.json").read_text())
    assert manifest["format_version"] == 1
    assert set(manifest["hashes"]) == {"base", "data", "readable"}
    rows = _lines(trained / "metrics.jsonl")
    assert [row["step"] for row in rows] == [0, 1, 2, 3]
    assert [row["drafter"] for row in rows] == ["A", "B", "A", "B"]
    for row in rows:
        assert set(row) <= set(METRICS)
        assert row["rollouts_per_problem"] == 8
    assert [row["step"] for row in _lines(trained / "timings.jsonl")] == [0, 1, 2, 3]
    assert sorted(path.name for path in (trained / "checkpoints").iterdir()) == ["step-000002", "step-000004"]
    assert sorted(path.name for path in (trained / "matches").iterdir()) == [
        "step-000000.jsonl.gz",
        "step-000002.jsonl.gz",
        "step-000003.jsonl.gz",
    ]


def test_engine_and_learner_agree_on_every_token(trained):
    for row in _lines(trained / "metrics.jsonl"):
        for stage in ("draft", "challenge"):
            if row[f"{stage}/logprob_gap_max"] is not None:
                assert row[f"{stage}/logprob_gap_max"] < 1e-4


def test_challenges_read_the_rivals_summary_and_never_its_hit(trained):
    with gzip.open(trained / "matches" / "step-000003.jsonl.gz", "rt") as stream:
        matches = [json.loads(line) for line in stream]
    assert len(matches) == 16
    for match in matches:
        (summary,) = match["summaries"]
        assert match["drafts"][0]["adapter"] == "B"
        assert match["challenge"]["adapter"] == "A"
        shown = summary["text"]
        if not summary["is_empty"]:
            assert shown in match["challenge"]["prompt"]["text"]
        # the target 2 is no part of a try that comes to 26
        assert re.search(rf"={match['problem']['details']['target']}(?!\d)", shown) is None


def test_both_adapters_moved_and_load_in_peft_alone(trained):
    before = trained / "checkpoints" / "step-000002"
    after = trained / "checkpoints" / "step-000004"
    for name in ("A", "B"):
        first, last = (load_file(path / name / "adapter_model.safetensors") for path in (before, after))
        assert any(not first[key].equal(last[key]) for key in first)
        assert first.keys() == last.keys()
    from importlib import resources

    with resources.as_file(resources.files("agon") / "assets" / "quickstart-base") as folder:
        model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(folder), after / "A")
    assert len(model.peft_config) == 1


def test_eval_prints_one_json_document_with_the_agreed_names(agon, trained, capsys):
    assert agon("eval", trained, "--json", "--samples", "2", "--direction", "b-a") == 0
    result = json.loads(capsys.readouterr().out)
    for name in (
        "task",
        "protocol",
        "direction",
        "n",
        "samples",
        "accuracy",
        "interval",
        "conversion",
        "regression",
        "seed",
    ):
        assert name in result
    assert (result["protocol"], result["direction"], result["n"], result["samples"]) == ("cascade", "b-a", 12, 2)
    assert {"draft", "summary_prefill", "challenge", "total"} <= set(result["tokens"])
    assert result["tokens"]["total"] == pytest.approx(result["tokens"]["draft"] + result["tokens"]["challenge"])
    assert result["interval"]["low"] <= result["accuracy"] <= result["interval"]["high"]
    assert result["interval"]["kind"] == "cluster-bootstrap"
    correct = [value for row in result["per_problem"] for value in row["correct"]]
    assert len(correct) == 24
    assert result["accuracy"] == pytest.approx(sum(correct) / 24)
    assert result["pass_at_k"]["1"] == pytest.approx(result["accuracy"])


@pytest.mark.parametrize(
    ("words", "protocol", "n_stages"),
    [
        (["--protocol", "single", "--adapter", "b"], "single", 1),
        (["--protocol", "self-cascade"], "self-cascade", 2),
        (["--protocol", "moa", "--drafts", "2", "--adapter", "base"], "moa", 3),
        (["--protocol", "majority", "--drafts", "3"], "majority", 3),
        (["--protocol", "likeliest"], "likeliest", 2),
        (["--protocol", "likeliest", "--drafts", "3", "--adapter", "b"], "likeliest", 3),
        (["--protocol", "blind-second", "--direction", "a-b"], "blind-second", 2),
        (["--protocol", "moa", "--drafts", "2", "--layers", "2"], "moa", 3),
        (["--protocol", "placebo", "--direction", "a-b"], "placebo", 2),
        (["--protocol", "empty-draft", "--direction", "b-a"], "empty-draft", 2),
        (["--protocol", "answer-visible", "--adapter", "b"], "answer-visible", 2),
        (["--protocol", "selective", "--direction", "a-b"], "selective", 2),
        (
            ["--protocol", "selective", "--doubt", "agreement", "--threshold", "0.9", "--adapter", "base"],
            "selective",
            3,
        ),
    ],
)
def test_every_protocol_can_be_measured(agon, trained, capsys, words, protocol, n_stages):
    assert agon("eval", trained, "--json", *words) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["protocol"] == protocol
    assert result["interval"]["kind"] == "clopper-pearson"
    assert len(result["players"]["drafters"]) + (result["players"]["challenger"] is not None) == n_stages


def test_the_default_direction_is_chosen_on_the_dev_split_and_said(agon, trained, capsys):
    assert agon("eval", trained, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["direction"] in ("a-b", "b-a")
    assert any("chosen on 6 development problems" in note for note in result["notes"])


def test_a_filed_evaluation_has_its_latency_beside_what_is_printed(agon, trained, capsys):
    assert agon("eval", trained, "--json", "--protocol", "single", "--label", "filed") == 0
    printed = json.loads(capsys.readouterr().out)
    filed = read_json(trained / "evaluations" / "filed.json")
    filed.pop("matches_sha256")
    assert filed.pop("latency_s") > 0
    assert filed == printed


def test_an_evaluation_repeats_itself(agon, trained, capsys):
    words = ("eval", trained, "--json", "--direction", "a-b", "--label", "again")
    assert agon(*words) == 0
    first = capsys.readouterr().out
    assert agon(*words) == 0
    assert capsys.readouterr().out == first


def test_the_base_alone_can_be_measured(agon, capsys):
    assert agon("eval", "quickstart", "--json", "--set", "evaluation.max_test=10") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["protocol"], result["method"], result["n"]) == ("single", None, 10)


def test_solve_shows_draft_summary_and_challenge(agon, trained, capsys):
    assert agon("solve", trained, "12 7 5 = 24", "--json") == 0
    solved = json.loads(capsys.readouterr().out)
    assert solved["drafter"]["adapter"] == "A"
    assert solved["challenger"]["adapter"] == "B"
    assert solved["verdict"] in ("correct", "wrong", "unparsed", "truncated")
    assert isinstance(solved["summary"], str)
    assert agon("solve", trained, "12 7 5 = 24", "--direction", "b-a") == 0
    shown = capsys.readouterr().out
    for word in ("draft by B", "summary as the challenger saw it", "challenge by A", "answer:"):
        assert word in shown


def test_report_is_one_file_with_the_matches_inside(agon, trained, tmp_path, capsys):
    assert agon("eval", trained, "--direction", "a-b", "--label", "for-the-report") == 0
    assert agon("report", trained, "--out", tmp_path / "r.html") == 0
    page = (tmp_path / "r.html").read_text()
    assert "for-the-report" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
