"""The learner on a CUDA device against the same step in float32 on a CPU."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jaxtyping
import pytest
import torch

from agon.model.base import Base, BaseIdentity, wrap_model

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("default"),
    pytest.mark.timeout(600),
]
FAMILIES = ["llama", "qwen2", "qwen2-window", "qwen3", "qwen3.5", "gemma3", "gemma4"]


def placed(base: Base, device: str, dtype: torch.dtype) -> Base:
    """The same base elsewhere, with matrices small enough for rounding not to grow, and which bfloat16 can hold."""
    # Gemma 4 norms its values without a weight: smaller matrices only leave it more to rounding.
    size = 1.0 if base.identity.name == "gemma4" else 0.4
    with torch.no_grad():
        for parameter in base.model.parameters():
            parameter.mul_(size if parameter.ndim > 1 else 1.0)
    model = base.model.to(torch.bfloat16).to(device=device, dtype=dtype)
    return wrap_model(model, None, identity=BaseIdentity(base.identity.name, "0"))


@pytest.fixture
def untyped(monkeypatch):
    """Shape checks off: torch's compiler cannot look into them."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture
def step(make_base, make_pair, make_learner, make_samples):
    """Report and gradients of one update, on any device."""

    def run(family, device, dtype, **settings):
        pair = make_pair(placed(make_base(family), device, dtype))
        learner = make_learner(pair, tokens_per_microbatch=200, importance_cap=2.0, **settings)
        caught = []

        def catch(parameters, _):
            caught.extend(torch.zeros(p.shape) if p.grad is None else p.grad.float().cpu() for p in parameters)
            return torch.ones(())

        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", catch)
            report = learner.update("A", make_samples(24, longest=40), step=0, total_steps=10)
        return learner, report, caught

    return run


def error(mine, theirs) -> float:
    """Relative error of whole gradients."""
    difference = sum((own - other).square().sum() for own, other in zip(mine, theirs, strict=True))
    return float((difference / sum(other.square().sum() for other in theirs)).sqrt())


def note(**values) -> None:
    """Keep a measured number, where a file for it is named."""
    if "AGON_NUMERICS" in os.environ:
        with Path(os.environ["AGON_NUMERICS"]).open("a") as file:
            file.write(json.dumps(values) + "\n")


@pytest.mark.parametrize("family", FAMILIES)
def test_float32_on_cuda_is_float32_on_a_cpu(family, step):
    _, expected, reference = step(family, "cpu", torch.float32)
    _, report, gradients = step(family, "cuda", torch.float32)
    note(test="float32", family=family, error=error(gradients, reference))
    assert error(gradients, reference) < 1e-4
    assert report.loss == pytest.approx(expected.loss, abs=1e-5)
    assert report.entropy == pytest.approx(expected.entropy, abs=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_bfloat16_gradients_are_float32_gradients_within_rounding(family, step):
    _, _, reference = step(family, "cpu", torch.float32)
    _, _, plain = step(family, "cpu", torch.bfloat16)
    _, report, gradients = step(family, "cuda", torch.bfloat16)
    note(test="bfloat16", family=family, error=error(gradients, reference), cpu=error(plain, reference))
    assert error(gradients, reference) < max(0.05, 1.5 * error(plain, reference))
    assert report.num_steps == 1


# Not Gemma 4: torch 2.11 cannot take its layers into one graph, and they run as they are.
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "gemma3"])
def test_compiled_gradients_are_float32_gradients_within_rounding(family, step, untyped):
    _, _, reference = step(family, "cpu", torch.float32)
    _, _, plain = step(family, "cuda", torch.bfloat16)
    learner, _, gradients = step(family, "cuda", torch.bfloat16, compile="on")
    seconds = learner.runner.compile_seconds
    errors = {"error": error(gradients, reference), "plain": error(plain, reference)}
    note(test="compiled", family=family, seconds=seconds, **errors)
    assert learner.runner.is_compiled
    assert errors["error"] < max(0.05, 1.5 * errors["plain"])


def test_twenty_compiled_steps_follow_the_plain_path_within_noise(
    make_base, make_pair, make_learner, make_samples, untyped
):
    curves = {}
    for name, device, dtype, mode in (
        ("reference", "cpu", torch.float32, "off"),
        ("plain", "cuda", torch.bfloat16, "off"),
        ("compiled", "cuda", torch.bfloat16, "on"),
    ):
        pair = make_pair(placed(make_base("qwen3"), device, dtype))
        learner = make_learner(pair, importance_cap=2.0, compile=mode, learning_rate=3e-3)
        reports = [
            learner.update("AB"[step % 2], make_samples(24, seed=step, longest=40), step=step, total_steps=20)
            for step in range(20)
        ]
        curves[name] = torch.tensor([[report.loss, report.entropy] for report in reports])
    noise = (curves["plain"] - curves["reference"]).abs().amax(0)
    distance = (curves["compiled"] - curves["reference"]).abs().amax(0)
    note(test="curve", noise=noise.tolist(), distance=distance.tolist(), last=curves["compiled"][-1].tolist())
    assert (distance <= 2 * noise + 2e-3).all()
    assert (curves["reference"][0] - curves["reference"][-1]).abs().max() > noise.max()  # there is a curve to follow


def test_activations_are_recomputed_only_when_they_would_not_fit(make_base, make_pair, make_learner):
    learner = make_learner(make_pair(placed(make_base("llama"), "cuda", torch.bfloat16)))
    runner = learner.runner
    # Two layers of width 32: a few KiB a token.
    assert 512 < runner.bytes_per_token < 65_536
    assert not runner.is_recomputed(8192)
    assert runner.is_recomputed(torch.cuda.mem_get_info()[1] // runner.bytes_per_token)
