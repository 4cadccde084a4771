from __future__ import annotations

import math
from dataclasses import replace

import pytest

from agon.config import TrainSettings
from agon.errors import EngineError
from agon.learner.packing import Sample
from agon.learner.runner import Runner
from agon.records import Request
from agon.rollout.torch_engine import TorchEngine
from agon.train.parity import Parity

CAPS = (4, 16, 64)


@pytest.fixture(scope="module")
def pair(make_tiny_pair):
    return make_tiny_pair(vocab_size=40, scales={"A": 0.2, "B": 0.2})


def _samples(pair, *, adapter="A", temperature=1.0, count=60):
    engine = TorchEngine(pair)
    requests = [
        Request((2 + i % 30, 5, 7), adapter, CAPS[i % 3], seed=i, temperature=temperature) for i in range(count)
    ]
    return [
        Sample(request.prompt_ids, completion.token_ids, completion.logprobs, advantage=1.0)
        for request, completion in zip(requests, engine.generate(requests), strict=True)
    ]


def _parity(pair, *, temperature=1.0, every=20):
    runner = Runner(pair, TrainSettings(), temperature=temperature)
    return Parity(pair, runner, every=every, max_gap=0.2, tokens_per_batch=512)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_an_engine_that_tells_the_truth_has_weight_one_at_every_length(pair, temperature):
    report = _parity(pair, temperature=temperature).check("A", _samples(pair, temperature=temperature))
    assert report.gap_max < 1e-4 / temperature
    assert report.weight.mean == pytest.approx(1.0, abs=1e-5)
    assert {4, 16, 64} <= set(report.by_length)
    assert sum(weight.num_tokens for weight in report.by_length.values()) == report.weight.num_tokens


def test_a_stale_adapter_is_found(pair):
    # Logprobs of B's samples are held against A: as if the engine had kept another version.
    with pytest.raises(EngineError, match=r"max_logprob_gap allows 0\.2: the engine samples from another policy"):
        _parity(pair).check("A", _samples(pair, adapter="B"))


def test_a_wrong_temperature_is_found(pair):
    with pytest.raises(EngineError, match="differ by"):
        _parity(pair, temperature=1.0).check("A", _samples(pair, temperature=0.7))


def test_a_weight_that_is_off_for_long_completions_alone_is_found(pair):
    samples = [
        replace(sample, behavior_logprobs=[logprob - 0.05 for logprob in sample.behavior_logprobs])
        if len(sample.completion_ids) > 16
        else sample
        for sample in _samples(pair)
    ]
    # e^0.05 = 1.051 for the long ones; a gap of 0.05 nats alone would pass.
    with pytest.raises(EngineError, match=r"mean weight( for completions of up to 64 tokens)? is 1\.0"):
        _parity(pair).check("A", samples)
    assert _parity(pair).measure("A", samples).by_length[64].mean == pytest.approx(math.exp(0.05), rel=1e-3)


def test_few_samples_of_every_length_are_compared(pair):
    samples = _samples(pair, count=60)
    report = _parity(pair).measure("A", samples)
    assert report.weight.num_tokens < sum(len(sample.completion_ids) for sample in samples)
    lengths = [len(sample.completion_ids) for sample in samples]
    assert max(report.by_length) >= max(lengths)
    one = _parity(pair).measure("A", samples[:1])
    assert one.weight.num_tokens == len(samples[0].completion_ids)


def test_it_is_due_every_so_many_steps_and_never_with_zero(pair):
    assert [step for step in range(50) if _parity(pair, every=20).is_due(step)] == [0, 20, 40]
    assert not any(_parity(pair, every=0).is_due(step) for step in range(50))
