"""Whole updates against a plain reference and against the engine's logprobs."""

from __future__ import annotations

import dataclasses
import math
import warnings

import pytest
import torch

from agon.errors import EngineError
from agon.learner.losses import LOSSES
from agon.learner.packing import Sample

PACKED = ["llama", "qwen2", "qwen2-window", "qwen3", "gemma3", "gemma4"]


def engine_logprobs(pair, name, samples, temperature=1.0):
    """What an engine would return: each sequence alone, through the model's own forward."""
    done = []
    with pair.sampling(name) as model, torch.no_grad():
        for sample in samples:
            ids = torch.tensor([[*sample.prompt_ids, *sample.completion_ids]])
            logprobs = (model(ids, use_cache=False).logits[0, :-1] / temperature).log_softmax(-1)
            picked = logprobs[len(sample.prompt_ids) - 1 :].gather(1, torch.tensor(sample.completion_ids)[:, None])
            done.append(dataclasses.replace(sample, behavior_logprobs=tuple(picked[:, 0].tolist())))
    return done


def reference_gradients(pair, name, samples, temperature=1.0):
    """The on-policy token-mean loss written out, one sequence at a time, through autograd alone.

    W0 + s·B·A is built differentiably and put in by functional_call: neither the pair's mounts nor its kernels are used.
    """
    model, scale = pair.base.model, pair.sites[0].scale(name)
    factors = {
        site.path: (site.down(name).clone().detach().requires_grad_(), site.up(name).clone().detach().requires_grad_())
        for site in pair.sites
    }
    weights = {
        f"{site.path}.base_layer.weight": site.weight.detach() + scale * factors[site.path][1] @ factors[site.path][0]
        for site in pair.sites
    }
    num_tokens = sum(len(sample.completion_ids) for sample in samples if not sample.is_masked)
    loss = torch.zeros(())
    for sample in samples:
        if sample.is_masked:
            continue
        ids = torch.tensor([[*sample.prompt_ids, *sample.completion_ids]])
        logits = torch.func.functional_call(model, weights, args=(ids,), kwargs={"use_cache": False}).logits
        logprobs = (logits[0, :-1] / temperature).log_softmax(-1)[len(sample.prompt_ids) - 1 :]
        picked = logprobs.gather(1, torch.tensor(sample.completion_ids)[:, None])[:, 0]
        loss = loss - sample.advantage * (picked - picked.detach()).exp().sum() / num_tokens
    loss.backward()
    gradients = [factor.grad for site in pair.sites for factor in factors[site.path]]
    return loss.item(), [torch.zeros(()) if gradient is None else gradient for gradient in gradients]


def own_gradients(learner, name, samples, monkeypatch):
    """The gradients of an update, caught as they are clipped."""
    caught = []

    def catch(parameters, _):
        caught.extend(None if p.grad is None else p.grad.clone() for p in parameters)
        return torch.stack([p.grad.norm() for p in parameters if p.grad is not None]).norm()

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", catch)
    report = learner.update(name, samples, step=0, total_steps=10)
    return report, caught


def close(mine, theirs, tolerance):
    size = max(gradient.abs().max().item() for gradient in theirs)
    for own, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(own, other, rtol=tolerance, atol=tolerance * size)


@pytest.mark.parametrize("family", PACKED)
def test_a_packed_step_equals_the_plain_unpacked_reference(
    family, make_base, make_pair, make_learner, make_samples, monkeypatch
):
    pair = make_pair(make_base(family))
    samples = engine_logprobs(pair, "B", make_samples(), temperature=0.8)
    learner = make_learner(pair, temperature=0.8, tokens_per_microbatch=60)
    assert learner.runner.is_packed
    loss, expected = reference_gradients(pair, "B", samples, temperature=0.8)
    report, gradients = own_gradients(learner, "B", samples, monkeypatch)
    close(gradients, expected, 5e-5 if family == "gemma4" else 1e-5)
    assert report.loss == pytest.approx(loss, abs=1e-5)
    # Engine and learner agree to 1e-4 / T in float32 (Rulings).
    assert report.logprob_gap_max < 1e-4


def test_a_family_with_running_state_is_padded_with_a_warning_and_steps_as_the_reference(
    make_base, make_pair, make_learner, make_samples, monkeypatch
):
    pair = make_pair(make_base("qwen3.5"))
    samples = engine_logprobs(pair, "A", make_samples(6, longest=7))
    with pytest.warns(UserWarning, match=r"qwen3_5_text carries a state along the sequence: .* padded by length"):
        learner = make_learner(pair, tokens_per_microbatch=60)
    assert not learner.runner.is_packed
    _, expected = reference_gradients(pair, "A", samples)
    report, gradients = own_gradients(learner, "A", samples, monkeypatch)
    close(gradients, expected, 1e-4)
    assert report.logprob_gap_max < 1e-4


@pytest.mark.parametrize("family", ["llama", "gemma4"])
def test_padded_and_packed_steps_are_the_same(family, make_base, make_pair, make_learner, make_samples, monkeypatch):
    steps = []
    for is_packed in (True, False):
        pair = make_pair(make_base(family))
        learner = make_learner(pair)
        learner.runner.is_packed = is_packed
        steps.append(own_gradients(learner, "A", make_samples(), monkeypatch)[1])
    close(*steps, 5e-5 if family == "gemma4" else 1e-5)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("budget", [1, 37, 90])
def test_micro_batches_add_up_to_the_batch(loss, budget, make_pair, make_learner, make_samples, monkeypatch):
    steps = []
    for tokens in (budget, 100_000):
        pair = make_pair()
        learner = make_learner(pair, loss=loss, tokens_per_microbatch=tokens, importance_cap=2.0)
        steps.append(own_gradients(learner, "A", make_samples(), monkeypatch))
    close(steps[0][1], steps[1][1], 1e-6 if loss != "gspo" else 1e-5)
    assert steps[0][0].loss == pytest.approx(steps[1][0].loss, abs=1e-6)
    for field in ("entropy", "logprob_gap_mean", "importance_mean", "num_tokens", "num_tokens_learned"):
        assert getattr(steps[0][0], field) == pytest.approx(getattr(steps[1][0], field), rel=1e-6)


@pytest.mark.parametrize("is_packed", [True, False])
def test_prompts_and_padding_get_no_gradient(is_packed, make_pair, make_learner, make_samples, monkeypatch):
    pair = make_pair()
    learner = make_learner(pair)
    learner.runner.is_packed = is_packed
    samples = make_samples(4)
    caught = []
    norm = pair.base.model.model.norm

    def watch(_, __, out):
        out.register_hook(lambda gradient: caught.append(gradient.flatten(0, 1)))

    handle = norm.register_forward_hook(watch)
    learner.update("A", samples, step=0, total_steps=1)
    handle.remove()
    (gradient,) = caught
    order = sorted(range(4), key=lambda i: (-len(samples[i].prompt_ids) - len(samples[i].completion_ids), i))
    longest = max(len(samples[i].prompt_ids) + len(samples[i].completion_ids) - 1 for i in order)
    learned = []
    for index in order:
        prompt, completion = len(samples[index].prompt_ids), len(samples[index].completion_ids)
        padding = 0 if is_packed else longest - (prompt + completion - 1)
        learned += [False] * (prompt - 1) + [True] * completion + [False] * padding
    assert (gradient.abs().sum(1) > 0).tolist() == learned


def test_a_bfloat16_base_is_learned_on_by_float32_adapters(make_base, make_pair, make_learner, make_samples):
    # T23. Base and adapter are computed apart here: merged, an update of 1e-6 would vanish in the base's rounding.
    base = make_base()
    pair = make_pair(dataclasses.replace(base, model=base.model.to(torch.bfloat16), dtype=torch.bfloat16))
    samples = engine_logprobs(pair, "A", make_samples())
    before = [parameter.detach().clone() for parameter in pair.parameters("A")]
    report = make_learner(pair, learning_rate=1e-6).update("A", samples, step=0, total_steps=1)
    # Logits near 5 are rounded to 2^-6.
    assert report.logprob_gap_mean < 0.05
    for old, new in zip(before, pair.parameters("A"), strict=True):
        assert new.dtype == torch.float32
        assert not torch.equal(old, new)


def test_zero_advantage_samples_are_counted_and_not_computed(make_pair, make_learner, make_samples, monkeypatch):
    samples = make_samples(6)
    flat = [dataclasses.replace(sample, advantage=0.0) if index % 2 else sample for index, sample in enumerate(samples)]
    pair = make_pair()
    _, expected = reference_gradients(pair, "A", flat)  # computes every row
    report, gradients = own_gradients(make_learner(pair), "A", flat, monkeypatch)
    close(gradients, expected, 1e-5)
    assert report.num_tokens == sum(len(sample.completion_ids) for sample in flat)
    assert report.num_tokens_learned == sum(len(sample.completion_ids) for sample in flat[::2])


def test_a_stale_engine_is_noticed_in_the_same_step(make_pair, make_learner, make_samples):
    # T11: the engine sampled with another adapter than the learner holds.
    pair = make_pair()
    samples = make_samples()
    stale = engine_logprobs(pair, "B", samples)
    learner = make_learner(pair, max_logprob_gap=0.05)
    before = pair.fingerprint("A")
    with pytest.raises(EngineError, match=r"engine and learner disagree by .*the engine may hold a stale adapter"):
        learner.update("A", stale, step=0, total_steps=1)
    assert pair.fingerprint("A") == before
    learner.update("A", engine_logprobs(pair, "A", samples), step=0, total_steps=1)


def test_at_rate_zero_the_gap_does_not_grow(make_pair, make_learner, make_samples):
    # T11.
    pair = make_pair()
    learner = make_learner(pair, learning_rate=0.0)
    gaps = []
    for step in range(20):
        samples = engine_logprobs(pair, "A", make_samples(3))
        gaps.append(learner.update("A", samples, step=step, total_steps=20).logprob_gap_max)
    assert max(gaps) < 1e-4


def test_streams_of_one_adapter_are_one_update_and_are_reported_each_on_its_own(
    make_pair, make_learner, make_samples, monkeypatch
):
    drafts, challenges = make_samples(8, seed=1), make_samples(4, seed=2)
    options = {"importance_cap": 2.0, "tokens_per_microbatch": 60}
    _, expected = own_gradients(make_learner(make_pair(), **options), "A", [*drafts, *challenges], monkeypatch)
    monkeypatch.undo()
    pair = make_pair()
    reports = make_learner(pair, **options).update_together("A", [drafts, challenges], step=0, total_steps=10)
    together = make_pair()
    whole = make_learner(together, **options).update("A", [*drafts, *challenges], step=0, total_steps=10)
    assert (pair.version("A"), pair.fingerprint("A")) == (1, together.fingerprint("A"))
    norm = torch.stack([gradient.norm() for gradient in expected]).norm().item()
    for report, stream in zip(reports, (drafts, challenges), strict=True):
        # What is a mean over tokens is what the stream gives alone, from the weights before the update.
        alone = make_learner(make_pair(), **options).update("A", stream, step=0, total_steps=10)
        assert report.num_tokens_learned == alone.num_tokens_learned == sum(len(s.completion_ids) for s in stream)
        for field in ("entropy", "logprob_gap_mean", "logprob_gap_max", "importance_mean", "clip_share"):
            assert getattr(report, field) == pytest.approx(getattr(alone, field), rel=1e-4), field
        assert report.importance_by_length == pytest.approx(alone.importance_by_length, rel=1e-4)
        # The step is one.
        assert (report.num_steps, report.num_sequences, report.loss) == (1, 12, whole.loss)
        assert report.grad_norm == pytest.approx(norm, rel=1e-4)
    assert reports[0].entropy != reports[1].entropy


def test_importance_is_reported_by_length(make_pair, make_learner):
    pair = make_pair()
    samples = [Sample((1,), (3,) * n, (0.0,) * n, 1.0) for n in (4, 9, 30)]
    exact = engine_logprobs(pair, "A", samples)
    # The engine gave the 30-token completion logprobs that are 0.1 too high: weight e^-0.1 there, 1 elsewhere.
    shifted = [
        *exact[:2],
        dataclasses.replace(exact[2], behavior_logprobs=tuple(x + 0.1 for x in exact[2].behavior_logprobs)),
    ]
    report = make_learner(pair, importance_cap=2.0).update("A", shifted, step=0, total_steps=1)
    assert report.importance_by_length == pytest.approx({"4": 1.0, "16": 1.0, "32": math.exp(-0.1)}, abs=1e-4)
    assert report.importance_mean == pytest.approx((13 + 30 * math.exp(-0.1)) / 43, abs=1e-4)
    assert report.logprob_gap_mean == pytest.approx(3.0 / 43, abs=1e-4)


def test_checkpointing_gives_the_same_gradients(make_pair, make_learner, make_samples, monkeypatch):
    # T17.
    steps = []
    for is_on in (False, True):
        pair = make_pair()
        learner = make_learner(pair, gradient_checkpointing=is_on)
        steps.append(own_gradients(learner, "A", make_samples(), monkeypatch)[1])
        assert not any(module.training for module in pair.base.model.model.layers)
    assert all(gradient.abs().max() > 0 for gradient in steps[1])
    close(*steps, 1e-6)


def test_no_warning_is_given_for_families_that_pack(make_base, make_pair, make_learner, make_samples):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        make_learner(make_pair(make_base("gemma4"))).update("A", make_samples(4), step=0, total_steps=1)
