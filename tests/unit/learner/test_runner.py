"""When layers are compiled, when activations are recomputed, and what is said when neither can be."""

from __future__ import annotations

import warnings

import pytest
import torch

from agon.errors import ConfigError
from agon.learner import runner as module
from agon.learner.runner import Runner


@pytest.fixture
def uncompilable(monkeypatch):
    def fail(_):
        def forward(*args, **kwargs):
            raise RuntimeError("Unsupported: a graph break\nand more")

        return [forward] * 2

    monkeypatch.setattr(module, "compile_layers", fail)


def test_a_base_that_cannot_be_compiled_runs_as_it_is_with_a_warning(
    uncompilable, make_pair, make_learner, make_samples, monkeypatch
):
    monkeypatch.setattr(module, "_wants_compiling", lambda *_, **__: True)
    with pytest.warns(
        UserWarning, match=r"cannot be compiled and runs as it is.*RuntimeError: Unsupported: a graph break"
    ):
        learner = make_learner(make_pair())
    assert not learner.runner.is_compiled
    assert learner.update("A", make_samples(), step=0, total_steps=1).num_steps == 1


def test_a_base_that_cannot_be_compiled_is_refused_where_compiling_was_asked_for(uncompilable, make_pair, make_learner):
    pair = make_pair()
    with pytest.raises(ConfigError, match=r'train\.compile is "on", but this base cannot be compiled'):
        make_learner(pair, compile="on")
    # Nothing of the attempt is left in the adapter.
    assert not any(parameter.grad is not None for parameter in pair.parameters("A"))


def test_lack_of_memory_is_not_taken_for_a_base_that_cannot_be_compiled(make_pair, make_learner, monkeypatch):
    def fail(_):
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(Runner, "_probe", fail)
    with pytest.raises(torch.OutOfMemoryError):
        make_learner(make_pair(), compile="on")


def test_on_a_cpu_nothing_is_compiled_or_recomputed_unless_asked_for(make_pair, make_learner):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runner = make_learner(make_pair()).runner
    assert not runner.is_compiled
    assert runner.bytes_per_token is None
    assert not runner.is_recomputed(1 << 40)
    assert make_learner(make_pair(), gradient_checkpointing=True).runner.is_recomputed(1)


def test_activations_are_recomputed_when_they_would_take_more_than_their_share_of_the_free_memory(
    make_pair, make_learner, monkeypatch
):
    learner = make_learner(make_pair(), logprob_chunk=10)
    learner.runner.bytes_per_token = 1000
    # 10 x 40 logits of 18 bytes are 7,200; 0.8 of the rest is 80,000: 80 tokens of 1,000 bytes.
    monkeypatch.setattr(module, "free_bytes", lambda device: 107_200)
    assert not learner.runner.is_recomputed(80)
    assert learner.runner.is_recomputed(81)
    fixed = make_learner(make_pair(), gradient_checkpointing=False).runner
    fixed.bytes_per_token = 1000
    assert not fixed.is_recomputed(1 << 40)


@pytest.mark.parametrize(
    ("free", "expected"),
    [(0, 8192), (15_000_000, 8192), (18_000_000, 12_288), (10**9, 32_768)],  # 0.8 x 18e6 / 1,000 is 14,394 tokens
)
def test_micro_batches_are_as_large_as_fits_within_limits(free, expected, make_pair, make_learner, monkeypatch):
    runner = make_learner(make_pair(), logprob_chunk=10).runner
    assert runner.tokens_per_microbatch == 8192  # where memory is not watched
    runner.bytes_per_token = 1000
    monkeypatch.setattr(module, "free_bytes", lambda device: free)
    assert runner._choose_tokens() == expected
    assert make_learner(make_pair(), tokens_per_microbatch=77).runner.tokens_per_microbatch == 77
