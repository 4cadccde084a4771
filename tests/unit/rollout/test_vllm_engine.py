from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from agon.errors import EngineError
from agon.records import Request
from agon.rollout.checks import check_completions
from agon.rollout.vllm_adapters import SwappedAdapters, VersionedAdapters
from agon.rollout.vllm_engine import VllmEngine
from agon.rollout.vllm_weights import FusedWeights, SwappedWeights

MODES = ("swapped", "multi-lora")


@pytest.fixture
def make_engine(make_pair, make_server):
    """Return a function (mode, family="llama", leave_out=()) -> (engine, pair, the stand-in behind it)."""

    def make(mode: str, family: str = "llama", **options):
        pair = make_pair(family)
        server = make_server(family, adapters=2 if mode == "multi-lora" else 0, **options)
        fused = FusedWeights(server.model, pair.base)
        if mode == "swapped":
            adapters = SwappedAdapters(server, SwappedWeights(fused, pair.sites))
        else:
            adapters = VersionedAdapters(server, fused, pair, room=2)
        return VllmEngine(server, pair, adapters), pair, server._engine

    return make


def _learn(pair, name, *, size=0.05):
    with torch.no_grad():
        for number, parameter in enumerate(pair.parameters(name)):
            parameter.add_(size * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number)))
    pair.count_step(name)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("mode", MODES)
def test_each_request_is_sampled_from_its_own_adapter(
    make_engine, mixed_requests, unmerged, plain_logprobs, mode, family
):
    engine, pair, _ = make_engine(mode, family)
    requests = mixed_requests(("A", None, "B"), rows=2)
    completions = engine.generate(requests)
    check_completions(requests, completions, {None: 0, "A": 0, "B": 0})
    models = {name: unmerged(pair, name) for name in ("A", "B", None)}
    for request, completion in zip(requests, completions, strict=True):
        expected = plain_logprobs(models[request.adapter], request, completion)
        assert completion.logprobs == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("mode", MODES)
def test_a_completion_depends_on_its_own_seed_alone(make_engine, mixed_requests, mode):
    engine, _, _ = make_engine(mode)
    requests = mixed_requests(("A", "B"))
    together = engine.generate(requests)
    alone = [engine.generate([request])[0] for request in requests[:6]]
    assert [completion.token_ids for completion in together[:6]] == [completion.token_ids for completion in alone]


@pytest.mark.parametrize("mode", MODES)
def test_an_updated_adapter_is_sampled_from_at_once_and_its_version_travels(
    make_engine, mixed_requests, unmerged, plain_logprobs, mode
):
    engine, pair, _ = make_engine(mode)
    requests = mixed_requests(("B",), rows=1)
    engine.generate(requests)
    _learn(pair, "B")
    completions = engine.generate(requests)  # the same prompts: an old prefix would show in the first logprob
    check_completions(requests, completions, {"B": 1})
    model = unmerged(pair, "B")
    for request, completion in zip(requests, completions, strict=True):
        assert completion.logprobs == pytest.approx(plain_logprobs(model, request, completion), abs=2e-4)


@pytest.mark.parametrize("mode", MODES)
def test_an_update_that_never_reaches_the_engine_stops_the_run(make_engine, mixed_requests, monkeypatch, mode):
    engine, pair, _ = make_engine(mode)
    requests = mixed_requests(("A",), rows=1)
    engine.generate(requests)
    _learn(pair, "A")
    monkeypatch.setattr(engine, "load", lambda name: None)
    completions = engine.generate(requests)
    with pytest.raises(EngineError, match=r"the engine has version 0 of adapter 'A', the trainer 1"):
        check_completions(requests, completions, {"A": pair.version("A")})


@pytest.mark.parametrize("mode", MODES)
def test_weights_that_stay_old_though_the_version_moves_are_found_by_the_probe(
    make_engine, mixed_requests, monkeypatch, mode
):
    engine, pair, _ = make_engine(mode)
    engine.generate(mixed_requests(("A",), rows=1))
    _learn(pair, "A")
    monkeypatch.setattr(engine._adapters, "load", lambda name: None)
    with pytest.raises(EngineError, match=r"not a bit of the engine's logprobs changed|does not act in the engine"):
        engine.generate(mixed_requests(("A",), rows=1))


@pytest.mark.parametrize("mode", MODES)
def test_a_frozen_copy_is_sampled_from_as_it_was_and_anew_once_it_is_renewed(
    make_engine, mixed_requests, unmerged, plain_logprobs, mode
):
    engine, pair, _ = make_engine(mode)
    engine.generate(mixed_requests(("A", "B"), rows=1))
    pair.snapshot("past-A", "A")
    requests = mixed_requests(("past-A", "B"), rows=1)  # with A there are three adapters, and room for two
    for version in (0, 1):
        model = unmerged(pair, "past-A")
        _learn(pair, "A")
        completions = engine.generate(requests)
        check_completions(requests, completions, {"past-A": version, "B": 0})
        for request, completion in zip(requests, completions, strict=True):
            if request.adapter == "past-A":
                assert completion.logprobs == pytest.approx(plain_logprobs(model, request, completion), abs=2e-4)
        pair.snapshot("past-A", "A")


@pytest.mark.parametrize("mode", MODES)
def test_a_renewed_copy_that_does_not_reach_the_engine_stops_the_run(make_engine, mixed_requests, monkeypatch, mode):
    engine, pair, _ = make_engine(mode)
    pair.snapshot("past-A", "A")
    requests = mixed_requests(("past-A",), rows=1)
    engine.generate(requests)
    _learn(pair, "A")
    pair.snapshot("past-A", "A")
    with monkeypatch.context() as patched:
        patched.setattr(engine._adapters, "load", lambda name: None)
        with pytest.raises(EngineError, match=r"not a bit of the engine's logprobs changed|does not act in the engine"):
            engine.generate(requests)
    monkeypatch.setattr(engine, "load", lambda name: None)
    with pytest.raises(EngineError, match=r"the engine has version 0 of adapter 'past-A', the trainer 1"):
        check_completions(requests, engine.generate(requests), {"past-A": pair.version("past-A")})


def test_an_adapter_that_a_batch_needs_does_not_make_room_for_another_of_it(make_engine, mixed_requests):
    engine, pair, _ = make_engine("multi-lora")
    engine.generate(mixed_requests(("A", "B"), rows=1))  # A was loaded first
    pair.snapshot("past-B", "B")
    requests = mixed_requests(("A", "past-B"), rows=1)
    assert [completion.adapter for completion in engine.generate(requests)] == ["A", "past-B"] * 5
    drafts = [Request((2, 3, 4), "past-B", 2, seed=0)]
    grown = engine.grow(
        drafts, lambda index, _: [Request((5, 6), "B", 2, seed=1)] if index == 0 else [], adapters=("past-B", "B")
    )
    assert [completion.adapter for completion in grown] == ["past-B", "B"]


def test_an_engine_without_room_for_a_layer_is_refused_by_name(make_engine, mixed_requests):
    engine, _, _ = make_engine("multi-lora", leave_out=("down_proj",))
    with pytest.raises(EngineError, match=r"no room for an adapter at model.layers.0.mlp.down_proj"):
        engine.generate(mixed_requests(("A",), rows=1))


def test_an_adapter_that_is_scaled_otherwise_is_refused(make_engine, mixed_requests, monkeypatch):
    engine, pair, _ = make_engine("multi-lora")
    own = engine._adapters._matrices

    def unscaled(name):
        return {
            key: matrix / pair.sites[0].scale(name) if ".lora_B." in key else matrix
            for key, matrix in own(name).items()
        }

    monkeypatch.setattr(engine._adapters, "_matrices", unscaled)
    with pytest.raises(EngineError, match="does not act in the engine as it does in the learner"):
        engine.generate(mixed_requests(("A",), rows=1))


def test_every_version_gets_an_id_of_its_own(make_engine, mixed_requests):
    engine, pair, fake = make_engine("multi-lora")
    seen = set()
    for _ in range(3):
        engine.generate(mixed_requests(("A", "B"), rows=1))
        routes = [request.lora_request for request in fake.added[-10:]]
        seen |= {(route.lora_int_id, route.lora_name) for route in routes}
        _learn(pair, "A")
        _learn(pair, "B")
    assert len(seen) == 6
    assert len({number for number, _ in seen}) == len({name for _, name in seen}) == 6


def test_adapters_mix_in_one_batch_and_swapped_ones_do_not(make_engine, mixed_requests):
    mixing, _, fake = make_engine("multi-lora", max_rows=8)
    mixing.generate(mixed_requests(("A", "B"), rows=1))
    assert fake.most_running == 8
    swapping, _, fake = make_engine("swapped", max_rows=8)
    swapping.generate(mixed_requests(("A", "B"), rows=1))
    assert fake.most_running == 5
    assert not swapping.can_grow


def test_a_challenge_joins_the_batch_when_its_draft_ends(make_engine, unmerged, plain_logprobs):
    engine, pair, fake = make_engine("multi-lora")
    drafts = [Request((2, 3, 4 + i), "A", cap, seed=i) for i, cap in enumerate((2, 20, 3))]
    order = []

    def grow(index, completion):
        order.append(index)
        if index >= len(drafts):
            return []
        return [Request((*drafts[index].prompt_ids, *completion.token_ids), "B", 2, seed=100 + index)]

    completions = engine.grow(drafts, grow, adapters=("A", "B"))
    assert len(completions) == 6
    assert [completion.adapter for completion in completions] == ["A", "A", "A", "B", "B", "B"]
    # The long draft ends last, after the challenges of the short ones.
    assert order.index(1) > max(order.index(3), order.index(4))
    challenge = fake.added[-1]
    request = Request(tuple(challenge.prompt_token_ids), "B", 2, seed=101)
    assert completions[5].logprobs == pytest.approx(
        plain_logprobs(unmerged(pair, "B"), request, completions[5]), abs=2e-4
    )


def test_swapped_adapters_refuse_to_grow(make_engine):
    engine, _, _ = make_engine("swapped")
    with pytest.raises(EngineError, match="multi-lora"):
        engine.grow([Request((2, 3), "A", 2, seed=0)], lambda index, completion: [], adapters=("A",))


def test_on_finish_is_told_of_every_completion_by_its_place(make_engine, mixed_requests):
    for mode in MODES:
        engine, _, _ = make_engine(mode)
        requests = mixed_requests(("A", "B"), rows=2)
        told = {}
        completions = engine.generate(requests, lambda index, completion, told=told: told.update({index: completion}))
        assert [told[index] for index in range(len(requests))] == completions


def test_an_error_in_a_callback_leaves_the_engine_usable(make_engine, mixed_requests):
    engine, _, fake = make_engine("multi-lora")
    requests = mixed_requests(("A",), rows=2)

    def fail(index, completion):
        raise RuntimeError("checker")

    with pytest.raises(RuntimeError, match="checker"):
        engine.generate(requests, fail)
    assert not fake.has_requests()
    assert not fake.batch_queue
    assert len(engine.generate(requests)) == len(requests)


def test_text_leaves_out_special_tokens_and_keeps_answer_tags(make_base, make_server):
    base = make_base()
    engine = VllmEngine(make_server(), base)
    requests = [Request((2 + i,), None, 30, seed=i, temperature=1.5) for i in range(12)]
    completions = engine.generate(requests)
    assert {completion.stop_reason for completion in completions} == {"stop", "length"}
    for completion in completions:
        assert "<eos>" not in completion.text
        ids = completion.token_ids[:-1] if completion.stop_reason == "stop" else completion.token_ids
        assert completion.text == base.tokenizer.decode([token for token in ids if token not in (1, 6)])


def test_top_p_and_greedy_logprobs_are_those_of_what_was_sampled_from(make_base, make_server):
    engine = VllmEngine(make_server(), make_base())
    greedy, narrow = engine.generate(
        [
            Request((3, 4, 5), None, 8, seed=1, temperature=0.0),
            Request((3, 4, 5), None, 8, seed=1, top_p=1e-6),
        ]
    )
    assert set(greedy.logprobs) == {0.0}
    assert narrow.token_ids == greedy.token_ids  # a nucleus of one token
    assert narrow.logprobs == pytest.approx([0.0] * len(narrow.logprobs), abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"adapter": "C"}, "asks for adapter 'C', which is not loaded: known are A, B"),
        ({"prompt_ids": (48,)}, "knows 0 to 47"),
        ({"prompt_ids": ()}, "empty prompt"),
        ({"max_tokens": 1000}, "the context holds 128"),
        ({"temperature": 0.001}, "temperature 0.001 is outside of what vLLM samples at"),
        ({"temperature": 2.5}, "temperature 2.5 is outside"),
    ],
)
def test_a_request_that_cannot_be_served_is_named(make_engine, changes, message):
    engine, _, fake = make_engine("multi-lora")
    with pytest.raises(EngineError, match=message):
        engine.generate([replace(Request((3, 4), "A", 4, seed=0), **changes)])
    assert not fake.has_requests()


def test_planting_leaves_the_adapters_as_they_were(make_engine, mixed_requests):
    engine, pair, _ = make_engine("swapped")
    before = pair.fingerprint("A"), pair.fingerprint("B")
    engine.generate(mixed_requests(("B",), rows=1))
    assert (pair.fingerprint("A"), pair.fingerprint("B")) == before
    assert engine.effects["planted"].slope == pytest.approx(1.0, abs=1e-3)


def test_closing_ends_the_server(make_engine):
    engine, _, fake = make_engine("swapped")
    engine.close()
    assert fake.is_closed
