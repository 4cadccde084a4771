"""Alarms in the real loop: what stops a run, how it ends, and how it goes on."""

from __future__ import annotations

import json

import pytest
import torch

from agon.learner.learner import Learner
from agon.records import Verdict

CUT = ["--set", "rollout.max_draft_tokens=1", "--set", "train.steps=7", "--set", "train.save_every=3"]
LOST = ["--set", "train.learning_rate=1.0", "--set", "train.warmup_share=0.0", "--set", "train.steps=9"]


def _alarms(run):
    path = run / "alarms.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture(scope="module")
def warned(agon, small, tmp_path_factory):
    """A run of 7 steps with nothing but cut completions, which it was told to go on with."""
    out = tmp_path_factory.mktemp("warned") / "run"
    assert agon("train", "quickstart-grpo", "--out", out, *small, *CUT, "--set", "alarms.all_truncated=warn") == 0
    return out


def test_a_run_in_which_all_is_truncated_saves_stops_and_says_why(agon, small, tmp_path, capsys, warned):
    out = tmp_path / "run"
    assert agon("train", "quickstart-grpo", "--out", out, *small, *CUT) == 1
    (told,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("agon: ")]
    assert told.startswith("agon: all-truncated, A as drafter since step 0: draft/truncated_share is 1 (limit 1): ")
    assert "rollout.max_draft_tokens" in told
    assert (
        f"stopped after step 5, saved; to go on all the same: agon train --resume --out {out} --set alarms.all_truncated=warn"
        in told
    )
    assert (out / "checkpoints" / "step-000005" / "complete.json").exists()
    assert [(row["name"], row["step"]) for row in _alarms(out)] == [("all-truncated", 4)]
    # Unchanged, it is a step further and says so again; as told, it goes on, and ends as if it had never been stopped.
    assert agon("train", "--resume", "--out", out) == 1
    assert "stopped after step 6" in capsys.readouterr().err
    assert agon("train", "--resume", "--out", out, "--set", "alarms.all_truncated=warn") == 0
    assert (out / "metrics.jsonl").read_bytes() == (warned / "metrics.jsonl").read_bytes()
    assert len(_alarms(out)) == 1


def test_a_warning_is_told_once_also_over_a_resume(agon, warned, tmp_path, capsys):
    (alarm,) = _alarms(warned)
    assert (alarm["mode"], alarm["since"]) == ("warn", 0)
    (warned / "checkpoints" / "step-000007" / "complete.json").unlink()
    before = (warned / "alarms.jsonl").read_bytes()
    assert agon("train", "--resume", "--out", warned, "--set", "alarms.all_truncated=warn") == 0
    told = capsys.readouterr().err
    assert "resumed from step 6" in told
    assert "all-truncated" not in told
    assert (warned / "alarms.jsonl").read_bytes() == before


def test_a_model_that_lost_its_format_ends_as_a_divergence_and_its_report_says_so(agon, small, tmp_path, capsys):
    out = tmp_path / "run"
    assert agon("train", "quickstart-grpo", "--out", out, *small, *LOST) == 3
    told = capsys.readouterr().err
    assert "agon: format-lost, A as drafter since step 1: share of readable completions is 0" in told
    assert "stopped after step 6, saved" in told
    assert agon("report", out) == 0
    page = (out / "report.html").read_text()
    assert "Alarms while training" in page
    assert "format-lost" in page


def test_a_healthy_run_has_no_alarms(trained):
    assert not (trained / "alarms.jsonl").exists()


def _ended(agon, out, small):
    """Train, and return the exit code with the one alarm of the run."""
    code = agon("train", "quickstart-grpo", "--out", out, *small)
    (alarm,) = _alarms(out)
    return code, alarm


def test_a_loss_that_is_not_finite_is_kept_as_the_reason_the_run_ended(agon, small, tmp_path, monkeypatch):
    def damaged(logprobs, *rest):
        return torch.full_like(logprobs, torch.nan)

    monkeypatch.setattr("agon.learner.learner.importance_weights", damaged)
    code, alarm = _ended(agon, tmp_path / "run", small)
    assert (code, alarm["name"], alarm["step"], alarm["is_broken"]) == (3, "diverged", 0, True)
    assert "no weight was changed" in alarm["message"]
    assert (tmp_path / "run" / "diverged-step-000000").is_dir()


@pytest.mark.parametrize(
    ("factor", "code", "name", "says"),
    [
        # Between .05 and .1 nats a token apart, where the policy is as sure as this base's: less than what stops a run, more than rounding.
        (0.5, 0, "engine-gap", "engine and learner say different things of the same tokens"),
        (0.4, 1, "engine", "train.max_logprob_gap"),
    ],
)
def test_a_learner_at_another_temperature_than_the_engine_is_found(
    agon, small, tmp_path, monkeypatch, factor, code, name, says
):
    def other(pair, own, *, temperature, max_completion_tokens):
        return Learner(pair, own, temperature=factor * temperature, max_completion_tokens=max_completion_tokens)

    monkeypatch.setattr("agon.train.run.Learner", other)
    ended, alarm = _ended(agon, tmp_path / "run", [*small, "--set", "alarms.steps=3"])
    assert (ended, alarm["name"]) == (code, name)
    assert says in alarm["message"]


def test_a_checker_that_fails_too_often_ends_the_run(agon, small, tmp_path, monkeypatch):
    monkeypatch.setattr("agon.verifiers.registry.check_expression", lambda *_: Verdict("error", 0.0, "it is broken"))
    code, alarm = _ended(agon, tmp_path / "run", small)
    # 32 checks a step: 50 are asked for before anything is said.
    assert (code, alarm["name"], alarm["step"]) == (1, "verifier", 1)
    assert "verifier.max_error_share allows 0.05" in alarm["message"]
