from __future__ import annotations

import random
from dataclasses import replace

import pytest

from agon.errors import EngineError
from agon.records import Request
from agon.rollout import vllm_server
from agon.rollout.vllm_adapters import SwappedAdapters, VersionedAdapters
from agon.rollout.vllm_engine import VllmEngine
from agon.rollout.vllm_stepping import VllmSteppingEngine
from agon.rollout.vllm_weights import FusedWeights, SwappedWeights


@pytest.fixture
def make_engine(make_pair, make_server):
    """Return a function (family="llama", ...) -> (batch engine, pair, the stand-in behind it)."""

    def make(family: str = "llama", *, is_swapped: bool = False, room: int = 2, **options):
        pair = make_pair(family)
        server = make_server(family, adapters=0 if is_swapped else room, **options)
        fused = FusedWeights(server.model, pair.base)
        if is_swapped:
            return VllmEngine(server, pair, SwappedAdapters(server, SwappedWeights(fused, pair.sites))), pair, server
        return VllmEngine(server, pair, VersionedAdapters(server, fused, pair, room=room)), pair, server

    return make


def _step(engine, told, completions):
    for progress in engine.step():
        assert progress.key not in completions
        ids, logprobs = told.setdefault(progress.key, ([], []))
        ids += progress.token_ids
        logprobs += progress.logprobs
        if progress.completion is not None:
            completions[progress.key] = progress.completion
            assert (tuple(ids), tuple(logprobs)) == (progress.completion.token_ids, progress.completion.logprobs)


def _finish(engine):
    """Take steps until nothing is open; return each key's completion."""
    told, completions = {}, {}
    for _ in range(2000):
        if not engine.num_open:
            return completions
        _step(engine, told, completions)
    raise AssertionError("never done")


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_a_request_gets_what_the_batch_engine_gives_it_while_others_join_and_leave(make_engine, mixed_requests, family):
    batch, pair, server = make_engine(family)
    pair.count_step("B")
    requests = mixed_requests(("A", None, "B"), rows=2)
    requests[4] = replace(requests[4], temperature=0.0)
    random.Random(5).shuffle(requests)
    wanted = batch.generate(requests)
    engine = VllmSteppingEngine(batch)
    keys = [engine.add(request) for request in requests[:9]]
    told, completions, gone = {}, {}, set()
    for number, request in enumerate(requests[9:]):
        _step(engine, told, completions)
        keys.append(engine.add(request))
        if number % 4 == 0:
            gone.add(next(key for key in keys if key not in completions and key not in gone))
            engine.cancel(max(gone))
    while engine.num_open:
        _step(engine, told, completions)
    assert len(gone) > 3
    assert gone | completions.keys() == set(keys)
    for key, completion in completions.items():
        want = wanted[keys.index(key)]
        assert replace(completion, logprobs=()) == replace(want, logprobs=())
        assert completion.logprobs == pytest.approx(want.logprobs, abs=1e-4)
    assert not gone & completions.keys()
    assert not server._engine.has_requests()


def test_adapters_are_loaded_and_looked_at_once_at_the_start(make_engine):
    batch, _, server = make_engine()
    engine = VllmSteppingEngine(batch)
    assert set(batch.effects) == {"planted", "A", "B"}
    resets = server._engine.num_resets
    for name in ("A", "B", None, "A"):
        engine.add(Request((3, 4), name, 3, 0))
    _finish(engine)
    assert server._engine.num_resets == resets


def test_a_bare_base_is_served(make_base, make_server):
    batch = VllmEngine(make_server(), make_base())
    request = Request((3, 4, 5), None, 6, 1)
    (wanted,) = batch.generate([request])
    engine = VllmSteppingEngine(batch)
    key = engine.add(request)
    assert _finish(engine) == {key: wanted}
    with pytest.raises(EngineError, match="bare base"):
        engine.add(Request((3,), "A", 1, 0))


def test_swapped_adapters_and_more_than_there_is_room_for_are_refused_with_the_remedy(make_engine):
    with pytest.raises(EngineError, match=r'rollout.vllm_adapters = "multi-lora"'):
        VllmSteppingEngine(make_engine(is_swapped=True)[0])
    batch, pair, _ = make_engine()
    pair.snapshot("past-A", "A")
    with pytest.raises(EngineError, match=r"2 adapters fit side by side"):
        VllmSteppingEngine(batch)


def test_a_request_given_up_is_not_told_of_again_though_vllm_still_brings_tokens(make_engine):
    batch, _, server = make_engine()
    engine = VllmSteppingEngine(batch)
    keys = [engine.add(Request((3 + i, 4), "A", 50, i)) for i in range(3)]
    while not engine.step():
        pass
    before = server._engine.abort_requests
    late = []

    def abort(request_ids):
        # What is in flight comes out a step later, those that were given up included.
        late.extend(
            output.request_id
            for outputs in server._engine.batch_queue
            for output in outputs
            if output.request_id in request_ids
        )
        before(request_ids)

    server._engine.abort_requests = abort
    engine.cancel(keys[1])
    assert late, "the stand-in has a batch in flight"
    assert engine.num_open == 2
    seen = {progress.key for _ in range(6) for progress in engine.step()}
    assert seen == {keys[0], keys[2]}
    engine.cancel(keys[0])
    engine.cancel(keys[2])
    engine.cancel(keys[2])
    engine.cancel(77)
    assert engine.num_open == 0
    assert not server._engine.batch_queue
    assert engine.step() == []


def test_one_that_waits_can_be_given_up(make_engine):
    batch, _, server = make_engine()
    engine = VllmSteppingEngine(batch)
    added = len(server._engine.added)
    engine.cancel(engine.add(Request((3, 4), "A", 5, 0)))
    assert engine.step() == []
    assert len(server._engine.added) == added


def test_when_all_are_given_up_nothing_is_in_flight_also_if_the_last_of_them_waited(make_engine):
    batch, _, server = make_engine(max_rows=2)
    engine = VllmSteppingEngine(batch)
    *running, waiting = [engine.add(Request((3 + i, 4), "A", 50, i)) for i in range(3)]
    while not engine.step():
        pass
    for key in running:
        engine.cancel(key)
    assert server._engine.batch_queue
    engine.cancel(waiting)
    assert engine.num_open == 0
    assert not server._engine.batch_queue


def test_a_lone_request_joins_at_once_and_among_many_after_four_steps_at_most(make_engine):
    batch, _, server = make_engine(max_rows=64, room=2)
    engine = VllmSteppingEngine(batch)
    added = server._engine.added

    def steps_until_added():
        before = len(added)
        engine.add(Request((9, 9), "B", 2, 0))
        for step in range(10):
            engine.step()
            if len(added) > before:
                return step
        return None

    assert steps_until_added() == 0
    for seed in range(40):
        engine.add(Request((3, 4), "A", 100, seed))
    engine.step()
    assert steps_until_added() == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"adapter": "C"}, "asks for adapter 'C', which is not loaded: known are A, B"),
        ({"prompt_ids": (48,)}, "knows 0 to 47"),
        ({"max_tokens": 1000}, "the context holds 128"),
        ({"temperature": 2.5}, "temperature 2.5 is outside"),
    ],
)
def test_a_request_that_cannot_be_served_is_refused_as_it_comes_and_hurts_nobody(make_engine, changes, message):
    engine = VllmSteppingEngine(make_engine()[0])
    key = engine.add(Request((3, 4), "A", 4, seed=0))
    with pytest.raises(EngineError, match=message):
        engine.add(replace(Request((3, 4), "A", 4, seed=0), **changes))
    assert engine.num_open == 1
    assert _finish(engine).keys() == {key}


def test_when_vllm_gives_a_request_up_all_are_lost_and_the_next_is_served(make_engine, monkeypatch):
    batch, _, server = make_engine()
    engine = VllmSteppingEngine(batch)
    for seed in range(3):
        engine.add(Request((3, 4), "A", 40, seed))
    advance = server._engine._advance

    def fail(row):
        output = advance(row)
        output.finish_reason = "error"
        return output

    with monkeypatch.context() as patched:
        patched.setattr(server._engine, "_advance", fail)
        with pytest.raises(EngineError, match="ended request 0 with 'error'"):
            _finish(engine)
    assert engine.num_open == 0
    assert engine.step() == []
    key = engine.add(Request((3, 4), "B", 3, 0))
    assert _finish(engine).keys() == {key}


def test_a_server_that_gives_nothing_is_not_waited_for_for_ever(make_engine, monkeypatch):
    batch, _, server = make_engine()
    engine = VllmSteppingEngine(batch)
    monkeypatch.setattr(vllm_server, "_MAX_IDLE_STEPS", 5)
    engine.add(Request((3, 4), "A", 4, 0))
    with monkeypatch.context() as patched:
        patched.setattr(server._engine, "_execute", list)
        with pytest.raises(EngineError, match="5 steps without a token"):
            _finish(engine)
    assert engine.num_open == 0


def test_closing_ends_vllm(make_engine):
    batch, _, server = make_engine()
    engine = VllmSteppingEngine(batch)
    engine.add(Request((3, 4), "A", 4, 0))
    engine.step()
    engine.close()
    assert server._engine.is_closed
    assert engine.num_open == 0


def test_vllm_is_given_no_more_than_it_has_rows_for_and_the_longest_waiting_first(make_engine):
    batch, _, server = make_engine(max_rows=4)
    engine = VllmSteppingEngine(batch)
    keys = [engine.add(Request((3, 4 + i), "A", 6, seed=i)) for i in range(11)]
    told, order = {}, []
    while engine.num_open:
        assert len(server._engine._waiting) + len(server._engine._running) <= 4
        for progress in engine.step():
            told.setdefault(progress.key, []).extend(progress.token_ids)
            if progress.key not in order:
                order.append(progress.key)
    assert order == keys
    assert told.keys() == set(keys)
