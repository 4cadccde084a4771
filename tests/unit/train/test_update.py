from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from agon.config import TrainSettings
from agon.errors import DivergedError
from agon.learner.report import Tally
from agon.methods.base import StepView
from agon.methods.registry import method_named
from agon.rewards.terms import RewardWeights
from agon.train.state import Progress
from agon.train.update import learn

OWN = TrainSettings(steps=10, problems_per_step=4, group_size=2)


class Clock:
    def learning(self):
        return nullcontext()


class Events:
    """Stands for the learner and for parity, and notes who was asked what, in order."""

    def __init__(self, *, diverges=False):
        self.log: list[tuple[Any, ...]] = []
        self.diverges = diverges

    def check(self, adapter, samples):
        self.log.append(("check", adapter, len(samples)))

    def update_together(self, adapter, streams, *, step, total_steps, position):
        self.log.append(("update", adapter, [len(samples) for samples in streams], step, total_steps, position))
        if self.diverges:
            raise DivergedError("not finite")
        return [Tally(learning_rate=float(number)).report() for number in range(len(streams))]

    def save_batch(self, folder, samples):
        self.log.append(("save", folder.name, len(samples)))
        return folder


@pytest.fixture
def streams(make_match):
    def make(name):
        method = method_named(name)
        view = StepView(3, 0, method.lineup(3), RewardWeights())
        return method, method.streams([[make_match("wrong", "correct"), make_match("correct", "wrong")]] * 3, view)

    return make


def _learn(events, method, streams, tmp_path):
    clock: Any = Clock()
    before = Progress(3, 14, 56, 8)
    return learn(events, method, streams, own=OWN, before=before, parity=events, clock=clock, run=tmp_path)


def test_both_adapters_of_a_pair_learn_each_from_its_own_stream(streams, tmp_path):
    events = Events()
    learned = _learn(events, *streams("agon"), tmp_path)
    # Step 3: B drafts. 14 problems of 4 a step are 3.5 steps of the schedule.
    assert events.log == [
        ("check", "B", 6),
        ("update", "B", [6], 3, 10, 3.5),
        ("check", "A", 6),
        ("update", "A", [6], 3, 10, 3.5),
    ]
    assert [(item.stream.adapter, item.stream.role) for item in learned] == [("B", "drafter"), ("A", "challenger")]


def test_two_streams_of_one_adapter_are_credited_apart_and_learned_in_one_update(streams, tmp_path):
    events = Events()
    learned = _learn(events, *streams("self-refine-conversion"), tmp_path)
    assert events.log == [("check", "A", 6), ("check", "A", 6), ("update", "A", [6, 6], 3, 10, 3.5)]
    assert [(item.stream.role, item.report.learning_rate) for item in learned] == [
        ("drafter", 0.0),
        ("challenger", 1.0),
    ]
    # Rewards .5 and 2.5 in one stream, 3.5 and .5 in the other: each is centred on its own mean.
    for item in learned:
        assert sum(sample.advantage for sample in item.credited.samples) == pytest.approx(0.0)


def test_a_role_that_does_not_learn_is_not_compared_either(streams, tmp_path):
    events = Events()
    _learn(events, *streams("past-opponent"), tmp_path)
    assert events.log == [("check", "A", 6), ("update", "A", [6], 3, 10, 3.5)]


def test_a_step_without_anything_to_learn_asks_for_no_comparison(tmp_path):
    events, method = Events(), method_named("dapo")
    (item,) = _learn(events, method, method.streams([], StepView(3, 0, method.lineup(3), RewardWeights())), tmp_path)
    assert events.log == [("update", "A", [0], 3, 10, 3.5)]
    assert item.credited.samples == []


def test_what_diverged_is_saved_whole_and_named(streams, tmp_path):
    events = Events(diverges=True)
    with pytest.raises(DivergedError, match=r"not finite \(step 3; the batch is in .*diverged-step-000003\)"):
        _learn(events, *streams("self-refine"), tmp_path)
    assert events.log[-1] == ("save", "diverged-step-000003", 12)
