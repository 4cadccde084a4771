"""Short real trainings of the methods that ask more of the loop than a pair whose roles swap."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agon.ablation.cells import is_finished
from agon.cli.common import settings_of
from agon.errors import ConfigError
from agon.methods.settle import settled
from agon.runs.lines import read_metrics
from agon.train.run import Watcher, resume_training, run_training

_SMALL = [
    "train.steps=6",
    "train.problems_per_step=4",
    "train.group_size=4",
    "train.save_every=2",
    "train.keep_checkpoints=9",
    "train.save_matches_every=1",
    "task.max_train=40",
    "rollout.max_draft_tokens=30",
    "rollout.max_challenge_tokens=30",
]
# Small groups that only correctness tells apart: many have no signal.
_RESAMPLED = ("train.steps=8", "train.group_size=2", "reward.format=0.0")


class Killed(Exception):
    """The training ended without a chance to save."""


def _settings(method, *overrides):
    return settings_of("quickstart-agon", [f"train.method={method}", *_SMALL, *overrides])


def _watcher(*, dies_at=None, said=None):
    def on_step(step: int, row: dict[str, Any]) -> None:
        if step == dies_at:
            raise Killed

    return Watcher(say=lambda line: said.append(line) if said is not None else None, on_step=on_step)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a function that trains a method once, whole, and gives its folder."""
    folders: dict[tuple[str, ...], Path] = {}

    def train(method, *overrides):
        key = (method, *overrides)
        if key not in folders:
            folders[key] = tmp_path_factory.mktemp("whole") / "run"
            run_training(_settings(method, *overrides), folders[key], _watcher())
        return folders[key]

    return train


def _assert_same(one, other):
    assert (one / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.parent.name == "matches")
    files += sorted(path.relative_to(one) for path in (one / "checkpoints").rglob("*") if path.is_file())
    assert len(files) >= 20
    for file in files:
        assert (one / file).read_bytes() == (other / file).read_bytes(), file


# dies_at is the step after which it is killed; the last checkpoint was after an even number of steps.
@pytest.mark.parametrize(
    ("method", "overrides", "dies_at"),
    [
        ("self-refine", (), 2),
        ("frozen-opponent", (), 4),
        ("dapo", _RESAMPLED, 2),
    ],
)
def test_a_run_killed_midway_continues_to_the_same_bytes(trained, tmp_path, method, overrides, dies_at):
    whole, out = trained(method, *overrides), tmp_path / "run"
    settings = _settings(method, *overrides)
    with pytest.raises(Killed):
        run_training(settings, out, _watcher(dies_at=dies_at))
    assert not is_finished(out, settled(settings))
    said: list[str] = []
    resume_training(out, settings, _watcher(said=said))
    assert any(f"resumed from step {dies_at // 2 * 2} " in line for line in said)
    _assert_same(out, whole)
    assert is_finished(out, settled(settings))


def _versions(run, step):
    return json.loads((run / "checkpoints" / f"step-{step:06d}" / "state.json").read_text())["versions"]


def _weights(run, step, path):
    return (run / "checkpoints" / f"step-{step:06d}" / path / "adapter_model.safetensors").read_bytes()


def test_a_frozen_opponent_drafts_in_every_step_and_stays_what_it_was(trained):
    run = trained("frozen-opponent")
    rows = read_metrics(run)
    assert {row["drafter"] for row in rows} == {"A"}
    assert _versions(run, 6) == {"A": 0, "B": 6}
    assert _weights(run, 2, "A") == _weights(run, 6, "A")
    assert _weights(run, 2, "B") != _weights(run, 6, "B")
    # Both halves of the budget are charged, and 2 is the distance of any update to none at all.
    assert {row["rollouts_per_problem"] for row in rows} == {8.0}
    assert rows[-1]["pair/distance"] == pytest.approx(2.0)
    assert all("draft/loss" not in row and "challenge/loss" in row for row in rows)


def test_past_opponents_draft_as_frozen_copies_that_only_training_keeps(trained):
    run = trained("past-opponent")
    rows = read_metrics(run)
    assert [row["drafter"] for row in rows] == ["past-A", "past-B"] * 3
    # B learns in even steps, A in odd ones; the copies are from before the first step.
    assert _versions(run, 6) == {"A": 3, "B": 3, "past-A": 0, "past-B": 0}
    checkpoint = run / "checkpoints" / "step-000006"
    assert sorted(path.name for path in (checkpoint / "frozen").iterdir()) == ["past-A", "past-B"]
    assert _weights(run, 6, "frozen/past-B") != _weights(run, 6, "B")
    for path in sorted((run / "matches").iterdir()):
        match = json.loads(gzip.decompress(path.read_bytes()).splitlines()[0])
        assert match["drafts"][0]["adapter"].startswith("past-")
        assert match["drafts"][0]["completion"]["adapter_version"] == 0


def test_copies_are_renewed_in_time_also_across_a_kill(trained, tmp_path, monkeypatch):
    monkeypatch.setattr("agon.methods.past_opponent._RENEWED_EVERY", 3)
    whole, out, settings = tmp_path / "whole", tmp_path / "run", _settings("past-opponent")
    run_training(settings, whole, _watcher())
    assert _versions(whole, 2)["past-B"] == 0
    # After steps 0, 1, 2 B had learned twice and A once: so old are the copies made before step 3.
    assert _versions(whole, 4) == {"A": 2, "B": 2, "past-A": 1, "past-B": 2}
    with pytest.raises(Killed):
        run_training(settings, out, _watcher(dies_at=4))
    resume_training(out, settings, _watcher())
    _assert_same(out, whole)


def test_self_refinement_steps_one_adapter_once_a_step_over_both_roles(trained):
    run = trained("self-refine")
    rows = read_metrics(run)
    assert _versions(run, 6) == {"A": 6, "B": 0}
    assert {row["drafter"] for row in rows} == {"A"}
    for row in rows:
        assert (row["draft/loss"], row["draft/grad_norm"]) == (row["challenge/loss"], row["challenge/grad_norm"])
        assert row["draft/tokens_learned"] <= row["draft/tokens_generated"]
        assert row["challenge/tokens_learned"] <= row["challenge/tokens_generated"]
        assert "pair/distance" not in row
    assert any(row["draft/entropy"] != row["challenge/entropy"] for row in rows)


def test_resampling_takes_fewer_steps_at_the_same_budget_and_says_that_it_is_finished(trained):
    run = trained("dapo", *_RESAMPLED)
    rows = read_metrics(run)
    assert 2 < len(rows) < 8
    # 8 steps of 4 problems of 2N = 4 rollouts, as any other method has them; every step was charged a whole number of problems.
    assert (rows[-1]["problems_consumed"], rows[-1]["rollouts_generated"]) == (32, 128)
    assert all(row["rollouts_generated"] == 4 * row["problems_consumed"] for row in rows)
    assert 0 < rows[-1]["rollouts_discarded"] < 128
    # The rate falls by what is used up: 8 - consumed / 4 steps are left.
    for before, row in pairwise(rows):
        assert row["learning_rate"] == pytest.approx(1.5e-3 * (8 - before["problems_consumed"] / 4) / 7)
    said: list[str] = []
    resume_training(run, _settings("dapo", *_RESAMPLED), _watcher(said=said))
    assert any(f"finished: {len(rows)} steps of 8" in line for line in said)


def test_four_minibatches_are_four_steps_of_the_optimiser(trained):
    run = trained("dapo", *_RESAMPLED)
    config = json.loads((run / "config.json").read_text())["train"]
    assert (config["loss"], config["minibatches"]) == ("dapo", 4)
    steps = json.loads((run / "checkpoints" / "step-000002" / "state.json").read_text())["progress"]["completed_steps"]
    assert steps == 2
    assert 2 < _versions(run, 2)["A"] <= 8


def test_a_recipe_that_contradicts_its_method_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError, match=r"train\.minibatches is 1, but the method 'dapo' stands for 4"):
        run_training(_settings("dapo", "train.minibatches=1"), tmp_path / "run", _watcher())
    assert not (tmp_path / "run").exists()
