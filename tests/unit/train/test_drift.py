from __future__ import annotations

import pytest

from agon.config import AlarmSettings
from agon.evaluation.policies import divergences
from agon.records import Attempt, Match, Problem, Prompt, Request, Verdict
from agon.rollout.torch_engine import TorchEngine
from agon.train.drift import DriftWatch, kl_to_base

PROBLEM = Problem(id="p", question="q", gold="2", task="t", verifier="exact")


@pytest.fixture(scope="module")
def pair(make_tiny_pair):
    """A is zero and so the base itself, B is far from it."""
    return make_tiny_pair(vocab_size=24, scales={"B": 0.1})


def _attempts(pair, adapter, *, temperature, count=32):
    requests = [
        Request((2 + i % 20, 5, 7), adapter, 100, seed=i, temperature=temperature, top_p=1.0) for i in range(count)
    ]
    return [
        Attempt("drafter", adapter, Prompt(request.prompt_ids, ""), completion, Verdict("wrong", 0.0), 1.0)
        for request, completion in zip(requests, TorchEngine(pair).generate(requests), strict=True)
    ]


@pytest.mark.parametrize("temperature", [1.0, 0.8])
def test_the_estimate_is_near_the_kl_over_the_whole_vocabulary(pair, temperature):
    attempts = _attempts(pair, "B", temperature=temperature)
    (exact,) = divergences(pair, [attempts], name="B", between=[("B", None)], temperature=temperature, seed=0)
    # The mean of a log ratio over sampled tokens scatters about the mean of its expectations.
    assert kl_to_base(pair, attempts, temperature=temperature) == pytest.approx(exact.kl, rel=0.15)
    assert exact.kl > 0.05


def test_an_adapter_that_is_the_base_is_at_zero(pair):
    assert kl_to_base(pair, _attempts(pair, "A", temperature=1.0), temperature=1.0) == pytest.approx(0.0, abs=1e-5)


def test_few_completions_of_many_are_read(pair):
    many = _attempts(pair, "A", temperature=1.0, count=3)
    (other,) = _attempts(pair, "B", temperature=1.0, count=1)
    # 32 of 64 are every other one: those at odd places are not looked at.
    mixed = [many[0] if place % 2 == 0 else other for place in range(64)]
    assert kl_to_base(pair, mixed, temperature=1.0) == pytest.approx(0.0, abs=1e-5)


def test_an_adapter_far_from_the_base_sounds_when_it_is_time_and_one_nearer_does_not(pair):
    matches = [[Match(PROBLEM, 0, (attempt,))] for name in "AB" for attempt in _attempts(pair, name, temperature=1.0)]
    kl = kl_to_base(pair, [of_problem[0].draft for of_problem in matches[32:]], temperature=1.0)

    def sounded(step, **own):
        return DriftWatch(pair, AlarmSettings(**own), temperature=1.0).see(step, matches)

    (alarm,) = sounded(40, kl_nats=0.99 * kl)
    assert (alarm.name, alarm.about, alarm.mode, alarm.step) == ("kl-explosion", "B", "warn", 40)
    assert alarm.value == pytest.approx(kl)
    assert sounded(40, kl_nats=1.01 * kl) == []
    assert sounded(41, kl_nats=0.99 * kl) == []
    assert sounded(40, kl_nats=0.99 * kl, kl_every=0) == []
    assert sounded(40, kl_nats=0.99 * kl, kl_explosion="off") == []
