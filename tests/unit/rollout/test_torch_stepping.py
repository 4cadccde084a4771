from __future__ import annotations

import gc
import random
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agon.errors import DivergedError, EngineError
from agon.records import Request
from agon.rollout.decoding import SlotDecoder
from agon.rollout.torch_engine import TorchEngine
from agon.rollout.torch_stepping import TorchSteppingEngine

FAMILIES = ("llama", "qwen2", "qwen2-window", "qwen3", "qwen3.5", "gemma4")


def _serve(engine, arrivals, *, cancels=(), most_steps=5000):
    """Drive an engine: `arrivals[step]` are the requests that come before that step, `cancels[step]` the numbers of those given up.

    Returns what each request was told, by its number in order of arrival.
    """
    cancels = dict(cancels)
    keys, told, completions, gone = [], {}, {}, set()
    for step in range(most_steps):
        keys += [engine.add(request) for request in arrivals[step : step + 1] for request in request]
        for number in cancels.get(step, ()):
            if number < len(keys):
                engine.cancel(keys[number])
                gone |= {number} - completions.keys()
        if step >= len(arrivals) and not engine.num_open:
            break
        for progress in engine.step():
            number = keys.index(progress.key)
            assert number not in gone, "told of a request that was given up"
            assert number not in completions, "told of a request that had ended"
            assert len(progress.token_ids) == len(progress.logprobs) > 0
            ids, logprobs = told.setdefault(number, ([], []))
            ids += progress.token_ids
            logprobs += progress.logprobs
            if progress.completion is not None:
                completions[number] = progress.completion
        assert engine.num_open == len(keys) - len(completions) - len(gone)
    assert not engine.num_open
    assert len(set(keys)) == len(keys)
    for number, completion in completions.items():
        assert told[number] == (list(completion.token_ids), list(completion.logprobs))
    return completions


def _same(found, wanted):
    assert replace(found, logprobs=()) == replace(wanted, logprobs=())
    assert found.logprobs == pytest.approx(wanted.logprobs, abs=1e-4)


def _tensor_bytes():
    gc.collect()
    storages = {}
    for thing in gc.get_objects():
        if isinstance(thing, torch.Tensor):
            storage = thing.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_request_gets_what_the_batch_engine_gives_it_while_others_join_and_leave(family, make_pair, mixed_requests):
    pair = make_pair(family)
    pair.count_step("B")
    requests = mixed_requests(("A", None, "B"), rows=2)
    random.Random(3).shuffle(requests)
    requests = [replace(request, top_p=(1.0, 0.8)[i % 2]) for i, request in enumerate(requests)]
    wanted = TorchEngine(pair).generate(requests)
    for max_rows in (3, 256):
        arrivals = [requests[0:1], requests[1:9], [], requests[9:10], requests[10:28], [], [], requests[28:]]
        found = _serve(TorchSteppingEngine(pair, max_rows=max_rows), arrivals, cancels={3: (2, 5), 6: (11,)})
        assert len(found) >= len(requests) - 3
        for number, completion in found.items():
            _same(completion, wanted[number])


def test_adapters_too_large_to_be_merged_are_served_alike(make_pair, mixed_requests):
    pair = make_pair()
    requests = mixed_requests(("A", None, "B"), rows=1)
    wanted = TorchEngine(pair).generate(requests)
    pair._is_merging = False  # as for a large base, or one in bfloat16
    found = _serve(TorchSteppingEngine(pair), [requests[:7], [], requests[7:]])
    for number, want in enumerate(wanted):
        _same(found[number], want)


@pytest.fixture(scope="module")
def crowd(make_pair):
    """A pair, a few dozen requests of all sorts, and what each is to get."""
    pair = make_pair()
    rng = random.Random(1)
    requests = [
        Request(
            prompt_ids=tuple(rng.randrange(2, 48) for _ in range(rng.choice((1, 2, 5, 5, 30)))),
            adapter=rng.choice(("A", "B", None)),
            max_tokens=rng.choice((1, 2, 5, 12)),
            seed=seed,
            temperature=rng.choice((0.0, 0.7, 1.0)),
            top_p=rng.choice((1.0, 0.9)),
        )
        for seed in range(24)
    ]
    return pair, requests, TorchEngine(pair).generate(requests)


@settings(deadline=None, max_examples=12)
@given(
    order=st.permutations(range(24)),
    waves=st.lists(st.integers(0, 4), max_size=8),
    cancels=st.dictionaries(st.integers(0, 20), st.lists(st.integers(0, 23), max_size=4), max_size=5),
    max_rows=st.sampled_from((1, 3, 6, 16)),
    can_prune=st.booleans(),
)
def test_no_order_of_joins_and_cancels_mixes_requests_up(crowd, order, waves, cancels, max_rows, can_prune):
    pair, requests, wanted = crowd
    engine = TorchSteppingEngine(pair, max_rows=max_rows)
    engine._parts.can_prune = can_prune
    ordered = [requests[number] for number in order]
    starts = [sum(waves[:step]) for step in range(len(waves) + 1)]
    arrivals = [ordered[start : start + wave] for start, wave in zip(starts, waves, strict=False)]
    found = _serve(engine, [*arrivals, ordered[starts[-1] :]], cancels=cancels)
    cancelled = {number for numbers in cancels.values() for number in numbers}
    assert len(found) >= len(requests) - len(cancelled)
    for number, completion in found.items():
        _same(completion, wanted[order[number]])


def test_a_lone_request_gets_its_first_token_in_the_first_step_and_one_more_in_each(make_base):
    engine = TorchSteppingEngine(make_base(stop_ids=()))
    key = engine.add(Request((5, 6, 7), None, 4, 0))
    told = [engine.step() for _ in range(4)]
    assert [[(one.key, len(one.token_ids)) for one in step] for step in told] == [[(key, 1)]] * 4
    assert [step[0].completion is None for step in told] == [True, True, True, False]
    assert engine.step() == []
    assert engine.num_open == 0


def test_keys_are_never_given_twice_and_cancelling_one_that_has_ended_changes_nothing(make_base):
    engine = TorchSteppingEngine(make_base(stop_ids=()))
    first = engine.add(Request((5,), None, 1, 0))
    (told,) = engine.step()
    engine.cancel(first)
    engine.cancel(first)
    engine.cancel(12345)
    second = engine.add(Request((5,), None, 1, 0))
    assert second != first
    (again,) = engine.step()
    assert again.key == second
    assert again.completion == told.completion


def test_a_request_given_up_frees_its_row_at_once(make_base):
    # Of 40 rows, so that one that has ended would stay until it is worth a step to close up.
    engine = TorchSteppingEngine(make_base(stop_ids=()), max_rows=40)
    long = [engine.add(Request((5, 6), None, 100, seed)) for seed in range(40)]
    assert [one.key for one in engine.step()] == long
    waiting = [engine.add(Request((7,), None, 2, seed)) for seed in range(3)]
    assert {one.key for one in engine.step()} == set(long)
    engine.cancel(long[7])
    assert {one.key for one in engine.step()} == {*long, waiting[0]} - {long[7]}


def test_when_the_last_request_is_given_up_nothing_is_held_any_more(make_pair):
    engine = TorchSteppingEngine(make_pair())
    at_rest = None
    for _ in range(2):  # the first time also makes what is kept for good
        keys = [engine.add(Request((5, 6, 7), name, 100, 0)) for name in ("A", "B", None) for _ in range(20)]
        for _ in range(3):
            engine.step()
        running = _tensor_bytes()
        for key in keys:
            engine.cancel(key)
        assert engine.num_open == 0
        before, at_rest = at_rest, _tensor_bytes()
    assert at_rest == before
    assert running > at_rest


@pytest.mark.parametrize("can_prune", [True, False])
def test_memory_does_not_grow_with_the_requests_served(can_prune, make_base):
    engine = TorchSteppingEngine(make_base(stop_ids=()), max_rows=8)
    engine._parts.can_prune = can_prune
    own, sizes, seed = _tensor_bytes(), [], 0
    for num_steps in (60, 240):
        for _ in range(num_steps):
            # Never idle: a request of another length comes before the last has ended.
            while engine.num_open < 6:
                engine.add(Request((5, 6, *range(2, 2 + seed % 9)), None, 3 + seed % 13, seed))
                seed += 1
            engine.step()
        sizes.append(_tensor_bytes() - own)
    assert seed > 40
    # The cache's room varies with the rows that it holds; five times as many requests would take five times as much.
    assert 0 < sizes[1] < 1.5 * sizes[0]
    assert len(engine._lane_of) == engine.num_open


def test_a_prompt_that_several_ask_for_is_read_once_and_many_prompts_are_read_in_several_steps(make_base, monkeypatch):
    monkeypatch.setattr("agon.rollout.lane._MAX_PROMPT_TOKENS", 10)
    read = []
    original = SlotDecoder.admit

    def counting(self, prompts):
        read.append(sorted(set(prompts)))
        return original(self, prompts)

    engine = TorchSteppingEngine(make_base(stop_ids=()))
    monkeypatch.setattr(SlotDecoder, "admit", counting)
    shared, other, long = (5, 6, 7, 8), (6,) * 6, (7,) * 30
    for prompt in (shared, shared, other, shared, long, other):
        engine.add(Request(prompt, None, 20, 0))
    told = [len(engine.step()) for _ in range(4)]
    # Ten tokens a step: the first four share two prompts of 4 and 6; one prompt of any length is read, alone.
    assert read == [[shared, other], [long], [other]]
    assert told == [4, 5, 6, 6]


def test_at_most_max_rows_rows_run_over_all_adapters(make_pair, monkeypatch):
    pair = make_pair()
    engine = TorchSteppingEngine(pair, max_rows=6)
    rows = {}
    original = SlotDecoder.step

    def counting(self, tokens, positions):
        rows[self] = len(tokens)
        assert sum(rows.values()) <= 6
        return original(self, tokens, positions)

    monkeypatch.setattr(SlotDecoder, "step", counting)
    requests = [Request((5, 6, i), ("A", "B", None)[i % 3], 60, i) for i in range(2, 40)]
    for request in requests:
        engine.add(request)
    for _ in range(5):
        rows.clear()
        engine.step()
    assert sum(rows.values()) == 6


@pytest.mark.parametrize("max_rows", [3, 16, 64])
def test_a_lane_full_of_long_requests_starves_no_other(max_rows, make_pair):
    engine = TorchSteppingEngine(make_pair(), max_rows=max_rows)
    for seed in range(200):
        engine.add(Request((5, 6, 7), "A", 120, seed))
    for _ in range(3):
        engine.step()
    late = engine.add(Request((5, 6), "B", 2, 0)), engine.add(Request((5, 6), None, 2, 0))
    ended = [one.key for _ in range(2) for one in engine.step() if one.completion is not None]
    assert set(late) <= set(ended)


def test_with_fewer_rows_than_adapters_the_oldest_request_is_next(make_base, make_pair):
    engine = TorchSteppingEngine(make_pair(), max_rows=1)
    keys = [engine.add(Request((5, 6), name, 1, 0)) for name in ("A", "B", "A", None, "B")]
    ended = [one.key for _ in range(5) for one in engine.step()]
    assert ended == keys


def test_requests_that_cannot_be_served_are_refused_and_hurt_nobody(make_pair, make_base):
    engine = TorchSteppingEngine(make_pair())
    good = engine.add(Request((5,) * 100, "A", 28, 0))
    for request, message in (
        (Request((5,) * 100, "A", 29, 0), r"100 prompt \+ 29 new = 129 tokens, but the context holds 128"),
        (Request((5,), "C", 1, 0), r"'C', which is not loaded: known are A, B"),
        (Request((48,), "A", 1, 0), "0 to 47"),
        (Request((), "A", 1, 0), "empty prompt"),
        (Request((5,), "A", 1, 0, temperature=float("nan")), "temperature nan"),
    ):
        with pytest.raises(EngineError, match=message):
            engine.add(request)
    assert engine.num_open == 1
    ended = [one for _ in range(28) for one in engine.step() if one.completion is not None]
    assert [one.key for one in ended] == [good]
    with pytest.raises(EngineError, match="bare base"):
        TorchSteppingEngine(make_base()).add(Request((5,), "A", 1, 0))
    with pytest.raises(EngineError, match="max_rows is 0"):
        TorchSteppingEngine(make_base(), max_rows=0)


def test_logits_that_are_not_finite_lose_every_request_and_the_next_one_is_served(make_pair):
    pair = make_pair()
    engine = TorchSteppingEngine(pair)
    request = Request((5, 6), "A", 6, 0)
    (wanted,) = TorchEngine(pair).generate([request])
    weight = pair.base.model.lm_head.weight
    for name in ("A", "B"):
        engine.add(Request((5, 6), name, 6, 0))
    engine.step()
    kept = weight[3].clone()
    with torch.no_grad():
        weight.data[3] = float("nan")  # not counted as a write to the base
    with pytest.raises(DivergedError, match="not finite"):
        engine.step()
    assert engine.num_open == 0
    assert engine.step() == []
    with torch.no_grad():
        weight.data[3] = kept
    found = _serve(engine, [[request]])
    _same(found[0], wanted)


def test_too_little_memory_is_an_error_with_its_remedy_and_gives_memory_back(make_pair, monkeypatch):
    engine = TorchSteppingEngine(make_pair())
    for name in ("A", None):
        engine.add(Request((5, 6), name, 6, 0))
    engine.step()

    def fail(self, tokens, positions):
        raise torch.OutOfMemoryError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(SlotDecoder, "step", fail)
        with pytest.raises(EngineError, match=r"out of memory with 2 requests open: lower rollout.max_rows"):
            engine.step()
    assert engine.num_open == 0
    assert all(len(lane) == 0 for lane in engine._lanes.values())
    assert len(_serve(engine, [[Request((5, 6), "A", 6, 0)]])) == 1


def test_between_steps_the_model_is_the_bare_base(make_pair, make_base):
    pair = make_pair()
    engine = TorchSteppingEngine(pair)
    ids = torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        wanted = make_base().model(input_ids=ids).logits
    engine.add(Request((5, 6), "A", 6, 0))
    engine.step()
    with torch.no_grad():
        assert torch.equal(pair.base.model(input_ids=ids).logits, wanted)
    assert pair.base.model.config._attn_implementation != "agon_decode"


def test_an_adapter_that_moves_while_it_is_served_is_noticed(make_pair):
    pair = make_pair()
    engine = TorchSteppingEngine(pair)
    engine.add(Request((5, 6), "A", 6, 0))
    engine.step()
    with torch.no_grad():
        pair.parameters("A")[0].mul_(2.0)
    with pytest.raises(AssertionError, match="adapter 'A' was written to"):
        engine.step()
    assert engine.num_open == 0


def test_a_family_whose_rows_cannot_leave_is_served_in_batches_of_one_length(make_base, monkeypatch):
    base = make_base(stop_ids=())
    monkeypatch.setattr("agon.rollout.probe.can_prune", lambda config: False)
    with pytest.warns(UserWarning, match="sampled without dropping finished rows"):
        engine = TorchSteppingEngine(base)
    keys = [engine.add(Request((5,) * length, None, cap, 0)) for length, cap in ((2, 3), (4, 1), (2, 5), (2, 9))]
    # Prompts of two tokens run together; one that is given up is told of no more, the rest go on.
    assert [one.key for one in engine.step()] == [keys[0], keys[2], keys[3]]
    engine.cancel(keys[0])
    assert [[one.key for one in engine.step()] for _ in range(5)] == [[keys[2], keys[3]]] * 4 + [[keys[3]]]
    # With the last of them the batch is over, and the next length has its turn.
    engine.cancel(keys[3])
    assert [one.key for one in engine.step()] == [keys[1]]
    assert engine.num_open == 0
