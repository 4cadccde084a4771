"""Two adapters on one base: who computes, who gets gradients, what must not move."""

from __future__ import annotations

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, Qwen3Config

from agon.config import AdapterSettings
from agon.errors import ModelError
from agon.model.base import Base, BaseIdentity, hash_parameters
from agon.model.pair import AdapterPair


def train(pair, name, steps, *, optimizer=None, weight_decay=0.0):
    """Descend on a loss that has nothing to do with language, `steps` times."""
    optimizer = optimizer or torch.optim.AdamW(pair.parameters(name), lr=1e-2, weight_decay=weight_decay)
    for _ in range(steps):
        optimizer.zero_grad()
        with pair.training(name) as model:
            model(torch.tensor([[3, 5, 7, 11]]), use_cache=False).logits.square().mean().backward()
            optimizer.step()
    optimizer.zero_grad()
    return optimizer


def peft_logits(base_model, folder, compute):
    """Load an adapter by PEFT alone."""
    return compute(PeftModel.from_pretrained(base_model, folder)).detach()


def test_at_rest_the_model_computes_the_bare_base(make_base, make_pair, randomise, logits):
    base = make_base()
    before = logits(base.model).detach()
    pair = make_pair(base)
    randomise(pair, "A")
    assert torch.equal(logits(base.model), before)
    with pair.sampling("A"):
        assert not torch.allclose(logits(base.model), before, atol=0.1)
    with pair.sampling(None):
        assert torch.equal(logits(base.model), before)
    assert torch.equal(logits(base.model), before)


def test_sampling_training_and_peft_compute_the_same_function(make_base, make_pair, randomise, logits, tmp_path):
    # The reference is PEFT's own unmerged forward on a base of its own.
    pair = make_pair(make_base())
    randomise(pair, "B")
    pair.save("B", tmp_path)
    expected = peft_logits(make_base().model, tmp_path, logits)
    with pair.sampling("B") as model:
        torch.testing.assert_close(logits(model), expected, rtol=1e-5, atol=1e-5)
    for is_traced in (False, True):
        with pair.training("B", is_traced=is_traced) as model:
            torch.testing.assert_close(logits(model), expected, rtol=1e-5, atol=1e-5)
    with pair.sampling("B", is_traced=True) as model:
        torch.testing.assert_close(logits(model), expected, rtol=1e-5, atol=1e-5)
    # PEFT's wrappers are back in their places.
    assert all(pair.base.model.get_submodule(site.path) is site.layer for site in pair.sites)


@pytest.mark.parametrize("rank", [2, 16])  # thin products for the small rank, one dense product for the large one
@pytest.mark.parametrize("mount", ["merged", "split", "traced"])
def test_gradients_equal_those_of_pefts_own_forward(make_base, make_pair, randomise, logits, tmp_path, rank, mount):
    pair = make_pair(make_base(), rank=rank)
    pair._is_merging = mount == "merged"
    randomise(pair, "A")
    pair.save("A", tmp_path)
    reference = PeftModel.from_pretrained(make_base().model, tmp_path, is_trainable=True)
    logits(reference).log_softmax(-1)[:, 3].sum().backward()
    with pair.training("A", is_traced=mount == "traced") as model:
        logits(model).log_softmax(-1)[:, 3].sum().backward()
    expected = {name: parameter.grad for name, parameter in reference.named_parameters() if parameter.grad is not None}
    own = dict(zip(pair.state("A"), pair.parameters("A"), strict=True))
    assert {key.replace(".weight", ".default.weight") for key in own} == expected.keys()
    for key, parameter in own.items():
        torch.testing.assert_close(
            parameter.grad, expected[key.replace(".weight", ".default.weight")], rtol=1e-4, atol=1e-4
        )


def test_a_hundred_switches_leave_the_base_bit_identical(make_base, make_pair, randomise):
    base = make_base()
    before = hash_parameters(base.model)
    pair = make_pair(base)
    randomise(pair, "A")
    randomise(pair, "B", seed=2)
    for _ in range(50):
        with pair.sampling("A"):
            pass
        with pair.sampling("B"):
            pass
    train(pair, "A", 2)
    assert hash_parameters(base.model) == before


def test_only_the_adapter_in_training_requires_gradients(make_pair):
    # T13: PEFT couples "active" with "trainable".
    pair = make_pair()
    for name in ("A", "B", "A"):
        with pair.training(name) as model:
            trainable = {key for key, parameter in model.named_parameters() if parameter.requires_grad}
            assert trainable == {key for key, _ in model.named_parameters() if f".{name}." in key}
            assert len(trainable) == 2 * len(pair.sites)
        assert not any(parameter.requires_grad for parameter in pair.base.model.parameters())


@pytest.mark.parametrize(("trained", "frozen"), [("A", "B"), ("B", "A")])
def test_one_adapter_is_bit_identical_while_the_other_trains(make_pair, randomise, trained, frozen):
    # T13, T14: weight decay and stale moments are what moves a frozen adapter elsewhere.
    pair = make_pair()
    randomise(pair, "A")
    randomise(pair, "B", seed=2)
    first = train(pair, frozen, 5, weight_decay=0.1)
    before, own = pair.fingerprint(frozen), pair.fingerprint(trained)
    moments = [state["exp_avg"].clone() for state in first.state.values()]
    steps = [float(state["step"]) for state in first.state.values()]
    train(pair, trained, 5, weight_decay=0.1)
    assert pair.fingerprint(frozen) == before
    assert pair.fingerprint(trained) != own
    assert all(
        torch.equal(state["exp_avg"], moment) for state, moment in zip(first.state.values(), moments, strict=True)
    )
    assert [float(state["step"]) for state in first.state.values()] == steps


def test_writing_to_the_other_adapter_or_the_base_while_training_is_caught(make_pair):
    pair = make_pair()
    with pytest.raises(AssertionError, match="other than 'A' moved"), pair.training("A"), torch.no_grad():
        pair.parameters("B")[0].add_(1.0)
    with pytest.raises(AssertionError, match="frozen base was written to"), pair.training("A"), torch.no_grad():
        pair.sites[0].weight.add_(1.0)


def test_an_optimiser_that_writes_uncounted_is_caught_too(make_pair, randomise):
    # Fused AdamW does not raise torch's count of in-place writes.
    pair = make_pair()
    randomise(pair, "B")
    fused = torch.optim.AdamW(pair.parameters("B"), lr=0.1, fused=True)
    for parameter in pair.parameters("B"):
        parameter.grad = torch.ones_like(parameter)
    with pytest.raises(AssertionError, match="other than 'A' moved"), pair.training("A"):
        fused.step()


def test_making_a_second_thing_trainable_is_caught(make_pair):
    pair = make_pair()
    with pytest.raises(AssertionError, match="1 parameters have the wrong trainability"), pair.training("A"):
        pair.sites[0].weight.requires_grad_(True)


@pytest.mark.parametrize("is_fused", [True, False])
def test_samples_after_a_step_come_from_the_new_weights(make_pair, logits, is_fused):
    # Merged weights are cached; a stale cache would sample from the adapter of the step before.
    pair = make_pair()
    optimizer = torch.optim.AdamW(pair.parameters("A"), lr=1e-2, fused=is_fused)
    with pair.sampling("A") as model:
        before = logits(model).detach()
    train(pair, "A", 1, optimizer=optimizer)
    with pair.sampling("A") as model:
        after = logits(model).detach()
    assert not torch.equal(before, after)
    expected = [site.weight + 2.0 * site.up("A") @ site.down("A") for site in pair.sites]  # alpha 8 / rank 4
    with pair.sampling("A"):
        for site, weight in zip(pair.sites, expected, strict=True):
            torch.testing.assert_close(site.base_layer.weight.detach(), weight.detach(), rtol=1e-6, atol=1e-6)


def test_sampling_nests_and_restores_on_an_error(make_pair, randomise, logits):
    pair = make_pair()
    randomise(pair, "A")
    with pair.sampling("A") as model:
        own = logits(model)
        with pytest.raises(ZeroDivisionError), pair.sampling(None):
            _ = 1 / 0
        assert torch.equal(logits(model), own)


@pytest.mark.parametrize("mount", ["merged", "split"])
def test_prepared_sampling_is_sampling_and_leaves_the_model_as_it_was(make_base, make_pair, randomise, logits, mount):
    pair = make_pair(make_base())
    pair._is_merging = mount == "merged"
    for name in pair.names:
        randomise(pair, name)
    wanted = {}
    for name in ("A", None, "B"):
        with pair.sampling(name) as model:
            wanted[name] = logits(model)
    prepared = {name: pair.prepare(name) for name in wanted}
    for name in ("A", "B", None, "B", "A", "A"):
        with prepared[name]() as model:
            assert torch.equal(logits(model), wanted[name])
            with pytest.raises(ZeroDivisionError), prepared["B"]():
                _ = 1 / 0
            assert torch.equal(logits(model), wanted[name])
        assert torch.equal(logits(pair.base.model), wanted[None])


def test_prepared_sampling_ends_with_the_adapters_next_step_and_not_inside_training(make_pair, randomise, logits):
    pair = make_pair()
    randomise(pair, "A")
    own, other = pair.prepare("A"), pair.prepare("B")
    with pair.training("A"), pytest.raises(AssertionError, match="sampling inside training"), own():
        pass
    train(pair, "A", 1)
    with pytest.raises(AssertionError, match="adapter 'A' was written to since"), own():
        pass
    with other(), pair.sampling("A") as model:
        moved = logits(model)
    with pair.prepare("A")() as model:
        assert torch.equal(logits(model), moved)


def test_bfloat16_base_keeps_float32_adapters_that_move_at_a_tiny_rate(make_base, make_pair):
    # T23: in bfloat16 an update of 1e-6 on weights near 0.1 would be rounded away.
    pair = make_pair(make_base(dtype=torch.bfloat16))
    assert {parameter.dtype for parameter in pair.parameters("A")} == {torch.float32}
    before = [parameter.detach().clone() for parameter in pair.parameters("A")]
    optimizer = torch.optim.AdamW(pair.parameters("A"), lr=1e-6, weight_decay=0.0)
    train(pair, "A", 20, optimizer=optimizer)
    moved = [not torch.equal(old, new) for old, new in zip(before, pair.parameters("A"), strict=True)]
    assert all(moved)
    assert {state["exp_avg"].dtype for state in optimizer.state.values()} == {torch.float32}


def test_dropout_trains_by_pefts_forward_and_samples_without_it(make_base, make_pair, randomise, logits):
    pair = make_pair(make_base(), dropout=0.5)
    plain = make_pair(make_base())
    for each in (pair, plain):
        randomise(each, "A")
    with pair.sampling("A") as model, plain.sampling("A") as reference:
        assert torch.equal(logits(model), logits(reference))
    with torch.random.fork_rng(), pair.training("A") as model:
        torch.manual_seed(0)
        first, second = logits(model), logits(model)
        assert not torch.equal(first, second)
        first.square().mean().backward()
    assert all(parameter.grad is not None for parameter in pair.parameters("A"))


def test_a_third_adapter_is_sampled_and_never_trained(make_pair, randomise, logits, tmp_path):
    pair = make_pair()
    randomise(pair, "A")
    pair.save("A", tmp_path)
    pair.add_frozen("past", tmp_path)
    assert pair.names == ("A", "B", "past")
    with pair.sampling("A") as model:
        own = logits(model).detach()
    before = pair.fingerprint("past")
    train(pair, "A", 2)
    assert pair.fingerprint("past") == before
    with pair.sampling("past") as model:
        torch.testing.assert_close(logits(model), own)
    pair.add_frozen("past", tmp_path)  # replacing it is allowed
    assert pair.names == ("A", "B", "past")
    with pytest.raises(ModelError, match="A is in training"):
        pair.add_frozen("A", tmp_path)


def test_a_snapshot_stays_what_its_source_was_until_it_is_renewed(make_base, make_pair, randomise, logits):
    pair = make_pair(make_base())
    randomise(pair, "A")
    pair.count_step("A")
    with pair.sampling("A") as model:
        at_first = logits(model).detach()
    pair.snapshot("past", "A")
    assert (pair.names, pair.frozen_names, pair.version("past")) == (("A", "B", "past"), ("past",), 1)
    train(pair, "A", 2)
    pair.count_step("A")
    with pair.sampling("past") as model:
        assert torch.equal(logits(model), at_first)
    assert pair.version("past") == 1
    with pair.sampling("A") as model:
        trained = logits(model).detach()
    assert not torch.equal(trained, at_first)
    pair.snapshot("past", "A")  # merged weights are cached: the old ones must not be sampled from
    with pair.sampling("past") as model:
        assert torch.equal(logits(model), trained)
    assert pair.version("past") == 2
    before = pair.fingerprint("past")
    train(pair, "B", 2)
    assert pair.fingerprint("past") == before


def test_a_snapshot_changes_neither_its_source_nor_what_gets_gradients(make_pair, randomise):
    pair = make_pair()
    randomise(pair, "B")
    before = pair.fingerprint("A"), pair.fingerprint("B")
    state = torch.get_rng_state()
    pair.snapshot("past", "B")
    assert torch.equal(torch.get_rng_state(), state)
    assert (pair.fingerprint("A"), pair.fingerprint("B")) == before
    with pair.training("A") as model:
        trainable = {key for key, parameter in model.named_parameters() if parameter.requires_grad}
        assert all(".A." in key for key in trainable)
        assert len(trainable) == 2 * len(pair.sites)


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        ("A", "B", "A is in training: give the frozen adapter another name"),
        ("past.A", "A", "cannot be called 'past.A': use letters"),
        ("../A", "A", "cannot be called"),
        ("past", "C", "adapter 'C' is not loaded"),
    ],
)
def test_a_snapshot_under_a_name_that_cannot_be_used_is_refused(make_pair, name, source, message):
    pair = make_pair()
    before = pair.fingerprint("A")
    with pytest.raises(ModelError, match=message):
        pair.snapshot(name, source)
    assert (pair.names, pair.fingerprint("A")) == (("A", "B"), before)


def test_unknown_adapters_and_second_pairs_are_refused(make_base, make_pair):
    base = make_base()
    pair = make_pair(base)
    with pytest.raises(ModelError, match="adapter 'C' is not loaded: known are A, B"), pair.sampling("C"):
        pass
    with pytest.raises(ModelError, match="carries adapters already"):
        AdapterPair.create(base, AdapterSettings(), seed=0)


def test_targets_that_match_nothing_linear_are_refused(make_base, make_pair):
    with pytest.raises(ModelError, match=r"adapter.targets takes in .*embed_tokens, a Embedding"):
        make_pair(make_base(), targets=("embed_tokens",))
    with pytest.raises(ModelError, match="matches no layer"):
        make_pair(make_base(), targets=("no_such_layer",))
    with pytest.raises(ModelError, match="names 'k_prok', which matches no layer"):
        make_pair(make_base(), targets=("q_proj", "k_prok"))
    pair = make_pair(make_base(), targets=("q_proj", "v_proj"))
    assert [site.path.rpartition(".")[2] for site in pair.sites] == ["q_proj", "v_proj"] * 2


# hidden, intermediate, layers, heads; then LoRA parameters at rank 16 in millions: 16 x (inputs + outputs) of every projection and layer.
REAL = {
    "Qwen3-0.6B": ((1024, 3072, 28, 16), 10.09),
    "Qwen3-1.7B": ((2048, 6144, 28, 16), 17.43),
    "Qwen3-4B": ((2560, 9728, 36, 32), 33.03),
}


@pytest.mark.parametrize("name", REAL)
def test_the_second_adapter_adds_at_most_two_and_a_half_percent(name, monkeypatch):
    monkeypatch.setattr("agon.model.pair.initialise_pair", lambda *_, **__: None)  # nothing to draw on the meta device
    (hidden, intermediate, layers, heads), millions = REAL[name]
    config = Qwen3Config(
        vocab_size=151936,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=8,
        head_dim=128,
        tie_word_embeddings=True,
    )
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    base = Base(
        model=model,
        tokenizer=None,
        identity=BaseIdentity(name, "0"),
        stop_ids=(0,),
        context_length=1,
        device=torch.device("meta"),
        dtype=torch.float32,
    )
    with torch.device("meta"):
        pair = AdapterPair.create(base, AdapterSettings(), seed=0)
    second = sum(parameter.numel() for parameter in pair.parameters("B"))
    assert second == pytest.approx(millions * 1e6, rel=1e-3)
    assert second <= 0.025 * base.num_parameters
    everything = sum(parameter.numel() for parameter in model.parameters())
    assert everything == base.num_parameters + 2 * second
