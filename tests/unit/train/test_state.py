from __future__ import annotations

import shutil
from dataclasses import asdict
from types import SimpleNamespace

import pytest
import torch

from agon.config import TrainSettings
from agon.errors import DivergedError, RunError
from agon.learner.learner import Learner
from agon.learner.packing import Sample
from agon.learner.runner import Halving
from agon.runs import RunFolder
from agon.train.state import Progress, checkpoint_bytes, require_finite, restore_state, save_state

OWN = TrainSettings(steps=5, problems_per_step=4, group_size=2)


def test_progress_comes_back_as_it_was_stored():
    progress = Progress(3, 17, 68, 20)
    assert Progress.from_json(asdict(progress), OWN) == progress


def test_a_checkpoint_that_stored_its_steps_alone_had_used_up_that_many_times_a_step():
    # 3 steps of 4 problems of 2N = 4 rollouts
    assert Progress.from_json({"completed_steps": 3}, OWN) == Progress(3, 12, 48, 0)


def test_a_run_is_over_when_its_problems_are_used_up_whatever_its_steps():
    assert [Progress(2, consumed).left(OWN) for consumed in (0, 17, 20, 23)] == [20, 3, 0, 0]


def test_the_place_in_the_schedule_is_the_share_of_problems_used_up():
    assert Progress(3, 12).position(OWN) == 3.0
    assert Progress(2, 14).position(OWN) == 3.5


class Pair:
    """Two adapters of two matrices each."""

    def __init__(self, **values: float) -> None:
        self._matrices = {name: [torch.zeros(2, 2), torch.full((3,), values.get(name, 0.5))] for name in ("A", "B")}

    def parameters(self, name):
        return self._matrices[name]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_an_adapter_that_is_not_finite_is_not_saved(value):
    require_finite(Pair(B=1e30), 20)
    with pytest.raises(
        DivergedError, match="adapter B holds numbers that are not finite after 20 steps, and was not saved"
    ):
        require_finite(Pair(B=value), 20)


@pytest.fixture(scope="module")
def stepped(make_tiny_pair):
    """A tiny pair whose adapters have each taken a step, so that there are moments to save; and its learner."""
    pair = make_tiny_pair(vocab_size=24, scales={"A": 0.1, "B": 0.1})
    learner = Learner(pair, TrainSettings(max_logprob_gap=100.0, tokens_per_microbatch=500), temperature=1.0)
    for adapter in "AB":
        learner.update(adapter, [Sample((2, 3), (4, 5, 1), (-1.0,) * 3, 1.0)], step=0, total_steps=9)
    return pair, learner


def test_a_checkpoint_takes_what_was_worked_out_beforehand(stepped, tmp_path):
    pair, learner = stepped
    with RunFolder.create(tmp_path / "run", settings={}) as run:
        save_state(run, pair, learner, Progress(3, 12, 48), is_last=False, keep=1)
        taken = sum(path.stat().st_size for path in (run.path / "checkpoints").rglob("*") if path.is_file())
    worked_out = checkpoint_bytes(pair)
    assert taken <= worked_out
    # What is not numbers is rounded up, and large beside adapters of 9 kB.
    numbers = 6 * sum(4 * parameter.numel() for parameter in pair.parameters("A"))
    assert worked_out - numbers < 2 * (taken - numbers)


def test_without_room_on_the_disk_no_checkpoint_is_begun_and_what_was_saved_stays(stepped, tmp_path, monkeypatch):
    pair, learner = stepped
    with RunFolder.create(tmp_path / "run", settings={}) as run:
        save_state(run, pair, learner, Progress(3, 12, 48), is_last=False, keep=1)
        usage = SimpleNamespace(free=checkpoint_bytes(pair) - 1)
        monkeypatch.setattr(shutil, "disk_usage", lambda place: usage)
        with pytest.raises(RunError, match=r"of free disk, but .* are needed: the checkpoint was not begun.*--resume"):
            save_state(run, pair, learner, Progress(6, 24, 96), is_last=False, keep=1)
        assert [path.name for path in (run.path / "checkpoints").iterdir()] == ["step-000003"]
        usage.free += 1
        save_state(run, pair, learner, Progress(6, 24, 96), is_last=False, keep=1)
        assert [path.name for path in (run.path / "checkpoints").iterdir()] == ["step-000006"]


def test_micro_batches_that_were_halved_are_so_when_the_run_goes_on(stepped, tmp_path):
    pair, learner = stepped
    again = Learner(pair, TrainSettings(tokens_per_microbatch=500), temperature=1.0)
    lower = Learner(pair, TrainSettings(tokens_per_microbatch=100), temperature=1.0)
    with RunFolder.create(tmp_path / "run", settings={}) as run:
        save_state(run, pair, learner, Progress(3, 12, 48), is_last=False, keep=2)
        learner.runner.halve(400, num_samples=7)
        save_state(run, pair, learner, Progress(6, 24, 96), is_last=False, keep=2)
        whole, halved = (run.path / "checkpoints" / name for name in ("step-000003", "step-000006"))
        for asked, checkpoint, tokens, halving in (
            (again, whole, 500, None),
            (again, halved, 200, Halving(500, 200)),
            (lower, halved, 100, None),  # the user has lowered them further
        ):
            restore_state(checkpoint, pair, asked, OWN)
            assert (asked.runner.tokens_per_microbatch, asked.runner.halving) == (tokens, halving)
