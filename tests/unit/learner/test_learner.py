"""Whole updates: what must hold whatever the batch."""

from __future__ import annotations

import dataclasses
import random
import re

import pytest
import torch

from agon.config import TrainSettings
from agon.errors import ConfigError, DivergedError, EngineError, ModelError, ResourceError
from agon.learner.dump import read_batch
from agon.learner.learner import Learner
from agon.learner.packing import Sample
from agon.learner.runner import Halving, Runner
from agon.model.base import hash_parameters


def test_each_adapters_gradient_comes_from_its_own_stream_only(make_pair, make_learner, make_samples):
    first, second = make_samples(seed=1), make_samples(seed=2)
    changed = [dataclasses.replace(sample, advantage=-sample.advantage) for sample in first]
    prints = []
    for stream in (first, changed):
        pair = make_pair()
        learner = make_learner(pair)
        before = pair.fingerprint("B")
        learner.update("A", stream, step=0, total_steps=1)
        assert pair.fingerprint("B") == before
        middle = pair.fingerprint("A")
        learner.update("B", second, step=0, total_steps=1)
        assert pair.fingerprint("A") == middle
        prints.append((middle, pair.fingerprint("B")))
    assert prints[0][0] != prints[1][0]  # A saw another stream
    assert prints[0][1] == prints[1][1]  # B did not


def test_an_update_moves_its_adapter_counts_its_step_and_leaves_the_base(make_pair, make_learner, make_samples):
    pair = make_pair()
    learner = make_learner(pair, weight_decay=0.1)
    base, before, other = hash_parameters(pair.base.model), pair.fingerprint("A"), pair.fingerprint("B")
    report = learner.update("A", make_samples(), step=0, total_steps=1)
    assert pair.fingerprint("A") != before
    assert pair.fingerprint("B") == other
    assert hash_parameters(pair.base.model) == base
    assert (pair.version("A"), pair.version("B")) == (1, 0)
    assert report.num_steps == 1
    assert report.grad_norm > 0
    assert report.num_sequences == 12
    assert not any(parameter.grad is not None for name in "AB" for parameter in pair.parameters(name))


def test_without_a_signal_the_loss_is_zero_and_no_weight_moves(make_pair, make_learner, make_samples):
    # T01: all masked; all advantages zero; no samples at all.
    pair = make_pair()
    learner = make_learner(pair, weight_decay=0.1)
    samples = make_samples()
    learner.update("A", samples, step=0, total_steps=9)  # momentum that would move it
    before = pair.fingerprint("A")
    masked = [dataclasses.replace(sample, is_masked=True) for sample in samples]
    flat = [dataclasses.replace(sample, advantage=0.0) for sample in samples]
    for batch, num_sequences in ((masked, 0), (flat, 12), ([], 0)):
        report = learner.update("A", batch, step=1, total_steps=9)
        assert report.loss == 0.0
        assert (report.num_steps, report.num_skipped_steps, report.num_tokens_learned) == (0, 1, 0)
        assert report.num_sequences == num_sequences
        assert report.entropy is None
        assert pair.fingerprint("A") == before
    assert pair.version("A") == 1


def test_one_unmasked_sample_of_eight_counts_as_if_alone(make_pair, make_learner, make_samples):
    # T01: the denominator must leave out what the numerator leaves out.
    samples = make_samples(8)
    masked = [dataclasses.replace(sample, is_masked=index != 3) for index, sample in enumerate(samples)]
    prints, losses = [], []
    for batch in (masked, [samples[3]]):
        pair = make_pair()
        losses.append(make_learner(pair).update("A", batch, step=0, total_steps=1).loss)
        prints.append(pair.fingerprint("A"))
    assert prints[0] == prints[1]
    assert losses[0] == losses[1] == pytest.approx(-samples[3].advantage, rel=1e-5)


def test_a_non_finite_loss_stops_before_any_weight_changes_and_the_batch_can_be_saved(
    make_pair, make_learner, make_samples, tmp_path
):
    pair = make_pair()
    learner = make_learner(pair)
    samples = make_samples()
    learner.update("A", samples, step=0, total_steps=9)
    before, moments = pair.fingerprint("A"), {key: value.clone() for key, value in learner.state()["A"].items()}
    huge = [dataclasses.replace(samples[0], advantage=3e38), dataclasses.replace(samples[1], advantage=3e38)]
    with pytest.raises(DivergedError, match="no weight was changed") as caught:
        learner.update("A", huge, step=1, total_steps=9)
    assert caught.value.exit_code == 3
    assert pair.fingerprint("A") == before
    assert all(torch.equal(value, learner.state()["A"][key]) for key, value in moments.items())
    assert pair.version("A") == 1
    assert read_batch(learner.save_batch(tmp_path / "bad", huge)) == huge
    # The learner is usable afterwards: no gradient was left behind.
    learner.update("A", samples, step=1, total_steps=9)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"behavior_logprobs": (-1.0,)}, EngineError, "sample 2 has 3 tokens and 1 logprobs"),
        ({"behavior_logprobs": (-1.0, float("nan"), -1.0)}, EngineError, "sample 2 has a logprob that is not finite"),
        ({"completion_ids": (), "behavior_logprobs": ()}, EngineError, "sample 2 has 0 tokens"),
        ({"prompt_ids": ()}, EngineError, "sample 2 has an empty prompt"),
        ({"advantage": float("nan")}, DivergedError, "sample 2 has advantage nan"),
    ],
)
def test_unusable_samples_are_refused(make_pair, make_learner, make_samples, change, error, message):
    # T08: a logprob that is missing is never taken for 0.
    good = Sample((1, 2), (3, 4, 5), (-1.0, -1.0, -1.0), 1.0)
    pair = make_pair()
    before = pair.fingerprint("A")
    with pytest.raises(error, match=message):
        make_learner(pair).update("A", [*make_samples(2), dataclasses.replace(good, **change)], step=0, total_steps=1)
    assert pair.fingerprint("A") == before


def test_with_minibatches_old_logprobs_stay_those_of_before_the_update(make_pair, make_learner, make_samples):
    # On-policy nothing can be clipped; from the second minibatch on the policy has moved away from where the batch began.
    samples = make_samples(16)
    pair = make_pair()
    once = make_learner(pair, minibatches=1, learning_rate=0.1, warmup_share=0.0)
    assert once.update("A", samples, step=0, total_steps=1).clip_share == 0.0
    pair = make_pair()
    learner = make_learner(pair, minibatches=4, learning_rate=0.1, warmup_share=0.0)
    report = learner.update("A", samples, step=0, total_steps=1)
    assert (report.num_steps, pair.version("A")) == (4, 4)
    assert report.clip_share > 0.05
    assert report.num_sequences == 16


def test_a_minibatch_without_a_signal_is_skipped_alone(make_pair, make_learner, make_samples):
    samples = [dataclasses.replace(s, advantage=0.0) if i % 2 else s for i, s in enumerate(make_samples(8))]
    report = make_learner(make_pair(), minibatches=2).update("A", samples, step=0, total_steps=1)
    assert (report.num_steps, report.num_skipped_steps) == (1, 1)


def test_an_update_between_two_steps_of_the_schedule_has_a_rate_between_theirs(make_pair, make_learner, make_samples):
    learner = make_learner(make_pair(), learning_rate=1.0, warmup_share=0.0)
    rate = [
        learner.update_together("A", [make_samples(2)], step=1, total_steps=10, position=position)[0].learning_rate
        for position in (None, 1.0, 2.5)
    ]
    # (10 - 1)/10, the same, (10 - 2.5)/10
    assert rate == pytest.approx([0.9, 0.9, 0.75])


def test_an_update_without_samples_moves_nothing(make_pair, make_learner):
    pair = make_pair()
    before = pair.fingerprint("A")
    (report,) = make_learner(pair, minibatches=4).update_together("A", [[]], step=0, total_steps=1)
    assert (report.num_steps, report.num_tokens_learned, report.entropy) == (0, 0, None)
    assert (pair.fingerprint("A"), pair.version("A")) == (before, 0)


@pytest.mark.parametrize("is_on", [False, True])
def test_the_zero_matrices_of_a_fresh_adapter_move_at_step_one(make_base, make_pair, make_learner, make_samples, is_on):
    # T17: with B·A = 0 only the B-matrices get a gradient at first; a cut graph would leave them at zero.
    pair = make_pair(make_base())
    with torch.no_grad():
        for site in pair.sites:
            site.up("A").zero_()
    make_learner(pair, gradient_checkpointing=is_on).update("A", make_samples(), step=0, total_steps=1)
    assert all(site.up("A").any() for site in pair.sites)


def test_dropout_is_a_function_of_seed_step_and_adapter(make_base, make_pair, make_learner, make_samples):
    prints = []
    for seed, noise in ((0, 1), (0, 2), (5, 1)):
        pair = make_pair(make_base(), dropout=0.3)
        torch.manual_seed(noise)
        state = torch.get_rng_state()
        make_learner(pair, seed=seed).update("A", make_samples(), step=0, total_steps=1)
        assert torch.equal(torch.get_rng_state(), state)
        prints.append(pair.fingerprint("A"))
    assert prints[0] == prints[1] != prints[2]


def test_state_restored_continues_bit_for_bit(make_pair, make_learner, make_samples):
    streams = [make_samples(seed=step) for step in range(4)]
    straight = make_pair()
    learner = make_learner(straight)
    for step, samples in enumerate(streams):
        learner.update("A", samples, step=step, total_steps=4)
        if step == 1:
            saved = {
                name: {key: tensor.clone() for key, tensor in part.items()} for name, part in learner.state().items()
            }
            weights = [parameter.detach().clone() for parameter in straight.parameters("A")]
    resumed = make_pair()
    with torch.no_grad():
        for parameter, weight in zip(resumed.parameters("A"), weights, strict=True):
            parameter.copy_(weight)
    again = make_learner(resumed)
    again.load_state(saved)
    for step in (2, 3):
        again.update("A", streams[step], step=step, total_steps=4)
    assert resumed.fingerprint("A") == straight.fingerprint("A")
    with pytest.raises(ModelError, match=r"lora_A\.weight\.exp_avg is missing or has another shape"):
        again.load_state(
            {
                "A": {
                    key.replace("exp_avg", "gone")
                    if "layers.0.mlp.up_proj.lora_A.weight.exp_avg" in key
                    else key: value
                    for key, value in saved["A"].items()
                }
            }
        )


def test_frozen_adapters_and_dr_grpo_without_its_constant_are_refused(make_pair, make_learner, make_samples, tmp_path):
    pair = make_pair()
    pair.save("A", tmp_path)
    pair.add_frozen("past", tmp_path)
    with pytest.raises(ModelError, match="adapter 'past' is frozen: only A and B learn"):
        make_learner(pair).update("past", make_samples(), step=0, total_steps=1)
    with pytest.raises(ConfigError, match=r'train\.loss is "dr_grpo", which divides by the cap'):
        Learner(pair, TrainSettings(loss="dr_grpo"), temperature=1.0)


def test_a_policy_learns_to_prefer_the_rewarded_token(make_base, make_pair, make_learner):
    # A bandit: 8 samples of 3 tokens at each of 4 prompts; reward is the share of token 7. From chance (1/40) to most of the time.
    pair = make_pair(make_base(), rank=4)
    learner = make_learner(pair, learning_rate=2e-2, warmup_share=0.0, max_logprob_gap=1e-3)
    rng, shares = random.Random(0), []
    generator = torch.Generator().manual_seed(0)
    for step in range(40):
        samples = []
        for prompt in ((1, 5), (2, 9), (3, 3), (8, 30)):
            group = sample_group(pair, prompt, 8, 3, generator)
            rewards = [sum(token == 7 for token in completion) / 3 for completion, _ in group]
            mean = sum(rewards) / 8
            samples += [
                Sample(prompt, completion, logprobs, reward - mean)
                for (completion, logprobs), reward in zip(group, rewards, strict=True)
            ]
            shares.append(mean)
        rng.shuffle(samples)
        learner.update("A", samples, step=step, total_steps=40)
    assert sum(shares[:16]) / 16 < 0.2
    assert sum(shares[-16:]) / 16 > 0.75


def sample_group(pair, prompt, count, length, generator):
    """Sample `count` completions of `length` tokens, one token at a time, with their logprobs."""
    ids = torch.tensor([prompt] * count)
    logprobs = []
    with pair.sampling("A") as model, torch.no_grad():
        for _ in range(length):
            distribution = model(ids, use_cache=False).logits[:, -1].log_softmax(-1)
            token = torch.multinomial(distribution.exp(), 1, generator=generator)
            logprobs.append(distribution.gather(1, token))
            ids = torch.cat([ids, token], 1)
    table = torch.cat(logprobs, 1)
    return [(tuple(row[len(prompt) :]), tuple(own)) for row, own in zip(ids.tolist(), table.tolist(), strict=True)]


def too_large(monkeypatch, limit, *, needs_gradient=True):
    """Let micro-batches of more than `limit` input tokens be out of memory after their forward pass; return the sizes of those that were."""
    score, failed = Runner.score, []

    def bounded(self, model, batch):
        out = score(self, model, batch)
        if batch.input_ids.numel() > limit and torch.is_grad_enabled() == needs_gradient:
            failed.append(batch.input_ids.numel())
            raise torch.OutOfMemoryError("CUDA out of memory")
        return out

    monkeypatch.setattr(Runner, "score", bounded)
    return failed


def updated(pair, learner, samples, **options):
    """Return the report of an update from two streams, the adapter after it, and the optimiser's moments."""
    reports = learner.update_together("A", [samples[:20], samples[20:]], step=0, total_steps=1, **options)
    moments = [tensor.clone() for tensor in learner.state()["A"].values()]
    return reports, pair.fingerprint("A"), moments


@pytest.mark.parametrize("settings", [{}, {"minibatches": 2}, {"loss": "gspo"}])
def test_a_micro_batch_out_of_memory_is_halved_and_the_step_is_that_of_halves(
    make_pair, make_learner, make_samples, monkeypatch, settings
):
    samples = make_samples(40)
    num_tokens = sum(len(sample.prompt_ids) + len(sample.completion_ids) - 1 for sample in samples)
    pair = make_pair()
    whole = updated(pair, make_learner(pair, **settings), samples)
    limit = num_tokens // (2 * settings.get("minibatches", 1))
    failed = too_large(monkeypatch, limit)
    pair = make_pair()
    learner = make_learner(pair, **settings)
    reports, fingerprint, moments = updated(pair, learner, samples)
    assert len(failed) == 1
    assert learner.runner.halving == Halving(8192, failed[0] // 2)
    assert learner.runner.tokens_per_microbatch == failed[0] // 2
    # Started with half: bit for bit, but for the old logprobs of minibatches, which were computed before.
    pair = make_pair()
    halves = updated(pair, make_learner(pair, tokens_per_microbatch=failed[0] // 2, **settings), samples)
    if settings.get("minibatches", 1) == 1:
        assert (reports, fingerprint) == halves[:2]
        assert all(map(torch.equal, moments, halves[2]))
    # Started with all: but for rounding.
    for report, other in zip(reports, whole[0], strict=True):
        assert report.num_tokens_learned == other.num_tokens_learned
        assert report.loss == pytest.approx(other.loss, rel=1e-5)
        assert report.grad_norm == pytest.approx(other.grad_norm, rel=1e-5)
        assert report.entropy == pytest.approx(other.entropy, rel=1e-5)
    for moment, other in zip(moments, whole[2], strict=True):
        torch.testing.assert_close(moment, other, rtol=1e-4, atol=1e-6 * float(other.abs().max()) + 1e-12)


def test_a_halved_step_draws_the_dropout_of_one_that_started_with_halves(
    make_pair, make_learner, make_samples, make_base, monkeypatch
):
    samples, prints = make_samples(40), []
    failed = too_large(monkeypatch, 250)
    for budget in (8192, None):
        pair = make_pair(make_base(), dropout=0.3)
        learner = make_learner(pair, tokens_per_microbatch=budget or failed[0] // 2)
        learner.update("A", samples, step=0, total_steps=1)
        prints.append(pair.fingerprint("A"))
    assert prints[0] == prints[1]


def test_logprobs_from_before_an_update_are_computed_in_halves_where_they_do_not_fit(
    make_pair, make_learner, make_samples, monkeypatch
):
    samples, prints = make_samples(40), []
    failed = too_large(monkeypatch, 150, needs_gradient=False)
    for budget in (8192, None):
        pair = make_pair()
        learner = make_learner(pair, minibatches=2, tokens_per_microbatch=budget or failed[0] // 2)
        learner.update("A", samples, step=0, total_steps=1)
        prints.append(pair.fingerprint("A"))
    assert (prints[0], len(failed)) == (prints[1], 1)


def test_a_second_lack_of_memory_stops_before_any_weight_changes_and_says_what_to_lower(
    make_pair, make_learner, make_samples, monkeypatch
):
    pair = make_pair()
    learner = make_learner(pair)
    before = pair.fingerprint("A")
    failed = too_large(monkeypatch, 20)
    with pytest.raises(ResourceError) as caught:
        learner.update("A", make_samples(40), step=0, total_steps=1)
    assert re.fullmatch(
        rf"out of memory while learning: a micro-batch of {failed[1]:,} tokens does not fit, though micro-batches were halved from "
        rf"{8192:,} to {failed[0] // 2:,} tokens: lower train\.tokens_per_microbatch or .*",
        str(caught.value),
    )
    assert caught.value.exit_code == 1
    assert (pair.fingerprint("A"), pair.version("A")) == (before, 0)
    assert not any(parameter.grad is not None for parameter in pair.parameters("A"))


def test_a_single_completion_out_of_memory_is_not_tried_again(make_pair, make_learner, make_samples, monkeypatch):
    failed = too_large(monkeypatch, 2)
    learner = make_learner(make_pair())
    with pytest.raises(ResourceError, match=r"holds a single completion: set train\.gradient_checkpointing=true"):
        learner.update("A", make_samples(1, seed=3), step=0, total_steps=1)
    assert len(failed) == 1
    assert learner.runner.halving is None
