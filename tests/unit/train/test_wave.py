from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agon.errors import ConfigError
from agon.methods.base import StepView
from agon.methods.registry import method_named
from agon.recipe import settings_from
from agon.records import METHODS, Problem
from agon.rewards.terms import RewardWeights
from agon.train import wave
from agon.train.order import problems_from
from agon.train.state import START, Progress
from agon.train.wave import MAX_WAVES, Played, check_budget, play_step

PROBLEMS = [Problem(id=str(i), question=f"q{i}", gold="2", task="t", verifier="exact") for i in range(40)]
ORDER = [problem.id for problem in problems_from(PROBLEMS, 0, count=40, seed=0)]
SESSION: Any = None  # the fake in the place of `play` needs none


@pytest.fixture
def asked(monkeypatch, make_match):
    """Let matches of the problems in `signals` differ in outcome, all others be wrong; return what was asked for, call by call."""
    calls: list[dict[str, Any]] = []
    signals: set[str] = set()

    def play(session, problems, lineup, *, samples, sampling, seed, stream):
        calls.append({"problems": [problem.id for problem in problems], "stream": stream, "samples": samples})
        return [
            [
                replace(
                    make_match("correct" if n == 0 and problem.id in signals else "wrong"), problem=problem, sample=n
                )
                for n in range(samples)
            ]
            for problem in problems
        ]

    monkeypatch.setattr(wave, "play", play)
    return calls, signals


def _step(method, progress=START, *, steps=5, per_step=4):
    settings = settings_from(
        {"train": {"method": method, "steps": steps, "problems_per_step": per_step, "group_size": 2}}
    )
    chosen = method_named(method)
    view = StepView(progress.completed_steps, 0, chosen.lineup(0), RewardWeights())
    return play_step(SESSION, PROBLEMS, chosen, settings=settings, progress=progress, view=view)


@pytest.mark.parametrize("method", METHODS)
def test_two_n_rollouts_a_problem_pass(make_match, method):
    chosen = method_named(method)
    challenge = "wrong" if chosen.lineup(0).has_challenge else None
    check_budget([[make_match("wrong", challenge)] * chosen.matches_per_problem(4)] * 3, group_size=4)


@pytest.mark.parametrize("count", [7, 9])
def test_any_other_number_of_rollouts_stops_the_run_also_where_the_mean_is_right(make_match, count):
    uneven = [[make_match("wrong")] * count, [make_match("wrong")] * (16 - count)]
    with pytest.raises(ConfigError, match=rf"sampled {count} rollouts of a problem, but the budget is 2N = 8 each"):
        check_budget(uneven, group_size=4)


def test_a_step_takes_the_next_problems_whatever_they_are_worth(asked):
    calls, _ = asked
    played = _step("grpo", Progress(2, 8, 32, 0))
    assert calls == [{"problems": ORDER[8:12], "stream": ("train", 2), "samples": 4}]
    assert (len(played.kept), played.discarded) == (4, [])
    assert played.after(Progress(2, 8, 32, 0)) == Progress(3, 12, 48, 0)


def test_problems_without_a_signal_are_replaced_one_by_one_and_charged(asked):
    calls, signals = asked
    # Places 4 and 6 of the first four, then 8, then 10.
    signals.update(ORDER[place] for place in (4, 6, 8, 10))
    played = _step("dapo", Progress(1, 4, 16, 0), steps=10)
    assert [call["problems"] for call in calls] == [ORDER[4:8], ORDER[8:10], ORDER[10:11]]
    assert [call["stream"] for call in calls] == [("train", 1), ("train", 1, "wave", 1), ("train", 1, "wave", 2)]
    assert [of_problem[0].problem.id for of_problem in played.kept] == [ORDER[place] for place in (4, 6, 8, 10)]
    assert [of_problem[0].problem.id for of_problem in played.discarded] == [ORDER[place] for place in (5, 7, 9)]
    # 7 problems of 4 rollouts, 3 of them in vain.
    assert played.after(Progress(1, 4, 16, 0)) == Progress(2, 11, 44, 12)


def test_the_last_step_has_what_is_left_and_no_more(asked):
    calls, signals = asked
    signals.add(ORDER[17])
    # 5 steps of 4 problems: 3 are left.
    before = Progress(2, 17, 68, 0)
    played = _step("dapo", before)
    assert [call["problems"] for call in calls] == [ORDER[17:20]]
    assert (len(played.kept), len(played.discarded)) == (1, 2)
    after = played.after(before)
    own = settings_from({"train": {"steps": 5, "problems_per_step": 4}}).train
    assert (after.problems_consumed, after.left(own)) == (20, 0)


def test_a_step_gives_up_after_so_many_waves(asked):
    calls, _ = asked
    played = _step("dapo", steps=20)
    assert len(calls) == MAX_WAVES
    assert (played.kept, len(played.discarded)) == ([], 4 * MAX_WAVES)


def test_a_masked_group_counts_as_one_without_a_signal(monkeypatch, make_match):
    def play(session, problems, lineup, *, samples, sampling, seed, stream):
        return [[make_match("correct"), *[make_match("error")] * (samples - 1)] for _ in problems]

    monkeypatch.setattr(wave, "play", play)
    assert _step("dapo", steps=20).kept == []


def test_nothing_played_is_nothing_used_up():
    assert Played([], []).after(Progress(3, 12, 96, 8)) == Progress(4, 12, 96, 8)
