from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from agon.errors import DivergedError, EngineError
from agon.records import Request
from agon.rollout.checks import check_completions
from agon.rollout.decoding import SlotDecoder
from agon.rollout.torch_engine import TorchEngine

FAMILIES = ["llama", "qwen2", "qwen2-window", "qwen3", "qwen3.5", "gemma4"]


@pytest.mark.parametrize("family", FAMILIES)
def test_logprobs_equal_a_plain_forward_pass(family, make_base, plain_logprobs, mixed_requests):
    base = make_base(family)
    requests = mixed_requests()
    completions = TorchEngine(base, max_rows=6).generate(requests)
    check_completions(requests, completions)
    assert sum(completion.num_tokens for completion in completions) > 60
    for request, completion in zip(requests, completions, strict=True):
        # The recurrent and the chunked form of Qwen3.5's gated delta rule round apart: 1.2e-4 on one Xeon, less on others.
        assert completion.logprobs == pytest.approx(plain_logprobs(base.model, request, completion), abs=3e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_equals_the_models_own_generate(family, make_base, mixed_requests):
    base = make_base(family)
    requests = [replace(request, temperature=0.0) for request in mixed_requests(rows=1)]
    for request, completion in zip(requests, TorchEngine(base).generate(requests), strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = base.model.generate(
                torch.tensor([request.prompt_ids]),
                attention_mask=torch.ones(1, len(request.prompt_ids), dtype=torch.long),
                do_sample=False,
                max_new_tokens=request.max_tokens,
                eos_token_id=list(base.stop_ids),
                pad_token_id=0,
            )
        assert list(completion.token_ids) == wanted[0, len(request.prompt_ids) :].tolist()
        assert set(completion.logprobs) == {0.0}


@pytest.mark.parametrize("family", FAMILIES)
def test_samples_do_not_depend_on_how_many_rows_run_together(family, make_base, mixed_requests):
    base = make_base(family)
    requests = mixed_requests()
    wanted = TorchEngine(base, max_rows=256).generate(requests)
    for max_rows in (3, 7):
        found = TorchEngine(base, max_rows=max_rows).generate(requests)
        assert [completion.token_ids for completion in found] == [completion.token_ids for completion in wanted]
        for mine, theirs in zip(found, wanted, strict=True):
            assert mine.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)


def test_samples_do_not_depend_on_what_else_is_asked_for_or_in_which_order(make_base, mixed_requests):
    engine = TorchEngine(make_base(), max_rows=4)
    requests = mixed_requests()
    together = engine.generate(requests)
    reverse = engine.generate(requests[::-1])[::-1]
    alone = [engine.generate([request])[0] for request in requests[:5]]
    assert [c.token_ids for c in together] == [c.token_ids for c in reverse]
    assert [c.token_ids for c in together[:5]] == [c.token_ids for c in alone]


def test_another_seed_gives_another_sample(make_base):
    requests = [Request((5, 6, 7), None, 12, seed) for seed in range(20)]
    completions = TorchEngine(make_base()).generate(requests)
    assert len({completion.token_ids for completion in completions}) > 15


@pytest.mark.parametrize("family", ["llama", "qwen3.5"])
def test_two_adapters_and_the_base_in_one_call_each_give_their_own(
    family, make_pair, unmerged, mixed_requests, plain_logprobs
):
    pair = make_pair(family)
    pair.count_step("B")
    pair.count_step("B")
    requests = mixed_requests(("A", None, "B"), rows=2)
    completions = TorchEngine(pair, max_rows=8).generate(requests)
    check_completions(requests, completions, {"A": 0, "B": 2, None: 0})
    for name in ("A", "B", None):
        model = unmerged(pair, name)
        own = [(r, c) for r, c in zip(requests, completions, strict=True) if r.adapter == name]
        assert len(own) == len(requests) // 3
        for request, completion in own:
            assert completion.logprobs == pytest.approx(plain_logprobs(model, request, completion), abs=1e-4)
    by_adapter = {name: [c.token_ids for c in completions if c.adapter == name] for name in ("A", "B", None)}
    assert by_adapter["A"] != by_adapter["B"] != by_adapter[None] != by_adapter["A"]


def test_an_adapter_that_moves_between_calls_moves_the_samples(make_pair, unmerged, plain_logprobs):
    pair = make_pair()
    engine = TorchEngine(pair)
    request = Request((5, 6, 7), "A", 10, 3)
    before = engine.generate([request])[0]
    with torch.no_grad():
        for parameter in pair.parameters("A"):
            parameter.mul_(1.5)
    pair.count_step("A")
    after = engine.generate([request])[0]
    assert (before.adapter_version, after.adapter_version) == (0, 1)
    assert before.logprobs != after.logprobs
    assert after.logprobs == pytest.approx(plain_logprobs(unmerged(pair, "A"), request, after), abs=1e-4)


def test_every_stop_token_ends_a_completion_and_is_part_of_it(make_base):
    # All tokens but two are stop tokens: nearly every completion is one token long.
    stop_ids = tuple(range(1, 46))
    completions = TorchEngine(make_base(stop_ids=stop_ids)).generate([Request((5, 6), None, 6, s) for s in range(30)])
    seen = {completion.token_ids[-1] for completion in completions if completion.stop_reason == "stop"}
    assert len(seen) > 3
    for completion in completions:
        ends_by_stop = completion.token_ids[-1] in stop_ids
        assert completion.stop_reason == ("stop" if ends_by_stop else "length")
        assert not set(completion.token_ids[:-1]) & set(stop_ids)


def test_a_capped_completion_has_no_stop_token_and_is_truncated(make_base):
    engine = TorchEngine(make_base(stop_ids=()))
    completions = engine.generate([Request((5, 6), None, 7, seed) for seed in range(4)])
    assert [(c.num_tokens, c.is_truncated) for c in completions] == [(7, True)] * 4
    # The tokenizer's pad token is its end token: where it is not a stop token it is a token like any other (T06).
    assert engine.generate([Request((1, 1, 1), None, 2, 0)])[0].num_tokens == 2


def test_text_keeps_answer_tags_and_drops_the_end_and_other_special_tokens(make_base, monkeypatch):
    base = make_base()
    engine = TorchEngine(base)
    # <think> w10 </think> w11 <turn> <answer> w12 </answer> <eos>
    script = [4, 10, 5, 11, 6, 2, 12, 3, 1]
    offset = len((9, 9))

    def scripted(input_ids, **kwargs):
        output = original(input_ids=input_ids, **kwargs)
        position = kwargs.get("position_ids")
        step = 0 if position is None else int(position[0, -1]) - offset + 1
        output.logits = torch.full_like(output.logits, -30.0)
        output.logits[..., script[step]] = 30.0
        return output

    original = base.model.forward
    engine.generate([Request((9, 9), None, 1, 0)])  # the start-up check sees the real model
    scripted.__signature__ = __import__("inspect").signature(original)
    monkeypatch.setattr(base.model, "forward", scripted)
    completion = engine.generate([Request((9, 9), None, 20, 0)])[0]
    assert completion.token_ids == tuple(script)
    assert completion.text == "<think> w10 </think> w11 <answer> w12 </answer>"
    assert completion.stop_reason == "stop"


def test_a_shared_prompt_is_prefilled_once(make_base, monkeypatch):
    base = make_base()
    engine = TorchEngine(base)
    prompts = [(5, 6, 7), (8, 9, 10, 11)]
    engine.generate([Request(prompts[0], None, 1, 0)])
    shapes: list[tuple[int, ...]] = []
    original = base.model.model.forward

    def counting(*args, input_ids=None, **kwargs):
        shapes.append(tuple(input_ids.shape))
        return original(*args, input_ids=input_ids, **kwargs)

    monkeypatch.setattr(base.model.model, "forward", counting)
    engine.generate([Request(prompt, None, 3, seed) for seed in range(8) for prompt in prompts])
    # One forward pass over two prompts padded to 4, then one token for each of up to 16 rows.
    assert shapes[0] == (2, 4)
    assert all(shape[1] == 1 for shape in shapes[1:])
    assert shapes[1][0] <= 16


def test_rows_that_end_leave_and_waiting_ones_join(make_base, monkeypatch):
    base = make_base(stop_ids=())
    engine = TorchEngine(base, max_rows=4)
    engine.generate([Request((5, 6), None, 1, 0)])
    widths: list[int] = []
    original = base.model.model.forward

    def counting(*args, input_ids=None, **kwargs):
        if input_ids.shape[1] == 1:
            widths.append(input_ids.shape[0])
        return original(*args, input_ids=input_ids, **kwargs)

    monkeypatch.setattr(base.model.model, "forward", counting)
    caps = [2, 9, 2, 9, 5, 5, 3]
    engine.generate([Request((5, 6 + i), None, cap, i) for i, cap in enumerate(caps)])
    # The first token comes from the prefill, so cap - 1 steps a row, and no step for a row that has ended.
    assert sum(widths) == sum(cap - 1 for cap in caps)
    assert max(widths) == 4


def test_on_finish_is_called_once_for_each_as_it_ends(make_base):
    engine = TorchEngine(make_base(stop_ids=()), max_rows=8)
    requests = [Request((5, 6, 7), None, cap, cap) for cap in (9, 2, 5, 1)]
    calls = []
    completions = engine.generate(requests, lambda index, completion: calls.append((index, completion)))
    assert [index for index, _ in calls] == [3, 1, 2, 0]
    assert all(completions[index] is completion for index, completion in calls)


def test_on_finish_may_train(make_base):
    # The callback runs outside inference mode and without the decoding attention.
    base = make_base()
    grads = []

    def learn(index, completion):
        weight = torch.nn.Parameter(torch.ones(()))
        logits = base.model(input_ids=torch.tensor([completion.token_ids])).logits
        (logits.sum() * weight).backward()
        grads.append(weight.grad)
        assert base.model.config._attn_implementation == before

    before = base.model.config._attn_implementation
    TorchEngine(base).generate([Request((5, 6), None, 3, 0)], learn)
    assert len(grads) == 1


def test_an_error_in_on_finish_leaves_the_model_as_it_was(make_base):
    base = make_base()
    engine = TorchEngine(base)

    def fail(index, completion):
        raise ValueError("stop here")

    for _ in range(2):
        with pytest.raises(ValueError, match="stop here"):
            engine.generate([Request((5, 6), None, 4, seed) for seed in range(3)], fail)
        assert not any("forward" in vars(module) for module in base.model.modules())
        assert base.model.config._attn_implementation != "agon_decode"


def test_no_requests_give_no_completions(make_base):
    assert TorchEngine(make_base()).generate([]) == []


def test_a_request_longer_than_the_context_is_refused_with_its_numbers(make_base):
    engine = TorchEngine(make_base())
    assert engine.context_length == 128
    with pytest.raises(EngineError, match=r"100 prompt \+ 29 new = 129 tokens, but the context holds 128"):
        engine.generate([Request((5,) * 100, None, 29, 0)])
    assert engine.generate([Request((5,) * 100, None, 28, 0)])[0].num_tokens <= 28


def test_an_unknown_adapter_and_foreign_token_ids_are_refused(make_pair, make_base):
    with pytest.raises(EngineError, match=r"'C', which is not loaded: known are A, B"):
        TorchEngine(make_pair()).generate([Request((5,), "C", 1, 0)])
    with pytest.raises(EngineError, match="bare base"):
        TorchEngine(make_base()).generate([Request((5,), "A", 1, 0)])
    with pytest.raises(EngineError, match="0 to 47"):
        TorchEngine(make_base()).generate([Request((5, 48), None, 1, 0)])


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_weights_that_are_not_finite_stop_the_rollout(temperature, make_base):
    base = make_base()
    engine = TorchEngine(base)
    engine.generate([Request((5,), None, 1, 0)])
    with torch.no_grad():
        base.model.lm_head.weight[3] = float("nan")
    with pytest.raises(DivergedError, match=r"request 0 .* not finite: .*lower train\.learning_rate, or go back"):
        engine.generate([Request((5, 6), None, 4, 0, temperature=temperature)])


def test_long_runs_make_room_and_keep_prompts_that_join_late(make_base, plain_logprobs):
    # More steps than the cache has slots at first, with short rows beside long ones and a long prompt that joins last.
    base = make_base(stop_ids=())
    requests = [Request((5, 6), None, 90, 0), *(Request((5, 6, 7 + i), None, 11, i) for i in range(12))]
    requests.append(Request(tuple(range(2, 40)), None, 60, 9))
    completions = TorchEngine(base, max_rows=2).generate(requests)
    for request, completion in zip(requests, completions, strict=True):
        assert completion.logprobs == pytest.approx(plain_logprobs(base.model, request, completion), abs=1e-4)


def test_a_family_whose_cache_cannot_be_pruned_is_sampled_all_the_same(make_base, mixed_requests, monkeypatch):
    base = make_base()
    requests = mixed_requests()
    wanted = TorchEngine(base).generate(requests)
    monkeypatch.setattr("agon.rollout.probe.can_prune", lambda config: False)
    engine = TorchEngine(base, max_rows=4)
    with pytest.warns(UserWarning, match="LlamaForCausalLM is sampled without dropping finished rows"):
        found = engine.generate(requests)
    engine.generate(requests[:1])  # says nothing more: a warning would be an error
    assert [c.token_ids for c in found] == [c.token_ids for c in wanted]
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)


def test_a_model_that_reads_positions_in_its_own_way_is_found_out(make_base, monkeypatch, plain_logprobs):
    base = make_base()
    original = base.model.model.rotary_emb.forward
    monkeypatch.setattr(
        base.model.model.rotary_emb, "forward", lambda x, position_ids: original(x, position_ids * 0 + 3 * x.shape[1])
    )
    engine = TorchEngine(base)
    with pytest.warns(UserWarning, match="differ from a plain forward pass"):
        engine.generate([Request((5, 6), None, 3, 0)])


def test_sampling_parameters_of_the_models_generation_config_are_not_used(make_base):
    # T10: a model that ships top_k = 1 must still be sampled over its whole vocabulary.
    base = make_base()
    base.model.generation_config.top_k = 1
    base.model.generation_config.do_sample = True
    first = TorchEngine(base).generate([Request((5, 6), None, 1, seed, temperature=3.0) for seed in range(40)])
    assert len(Counter(completion.token_ids for completion in first)) > 5


def test_top_p_one_and_top_p_below_one_share_a_batch(make_base, plain_logprobs):
    base = make_base()
    whole = [Request((5, 6, 7), None, 6, seed) for seed in range(8)]
    cut = [replace(request, top_p=0.6) for request in whole]
    completions = TorchEngine(base).generate([*whole, *cut])
    for request, completion in zip(whole, completions, strict=False):
        assert completion.logprobs == pytest.approx(plain_logprobs(base.model, request, completion), abs=1e-4)
    for request, completion in zip(cut, completions[8:], strict=True):
        # Renormalised over a nucleus of mass at least 0.6 and at most 1: log p rises by 0 to -log 0.6.
        plain = plain_logprobs(base.model, request, completion)
        gains = [mine - theirs for mine, theirs in zip(completion.logprobs, plain, strict=True)]
        assert all(-1e-4 <= gain <= -torch.log(torch.tensor(0.6)).item() + 1e-4 for gain in gains)
    assert any(low != high for low, high in pairwise(c.token_ids for c in completions[8:]))


def test_rows_that_do_not_fit_are_halved_once_and_what_had_ended_is_kept(make_pair, monkeypatch):
    requests = [Request((5, 6, 7), "A", 3 + seed, seed) for seed in range(12)]
    whole = TorchEngine(make_pair()).generate(requests)
    step, sizes = SlotDecoder.step, []

    def bounded(self, tokens, positions):
        sizes.append(len(tokens))
        # A few steps after the start: by then the shortest have ended.
        if len(tokens) > limit and len(sizes) >= 5:
            sizes.clear()
            raise torch.OutOfMemoryError("CUDA out of memory")
        return step(self, tokens, positions)

    monkeypatch.setattr(SlotDecoder, "step", bounded)
    limit, told = 6, []
    engine = TorchEngine(make_pair())
    with pytest.warns(UserWarning, match=r"out of memory while decoding \d+ rows .* are decoded at once from here on"):
        halved = engine.generate(requests, on_finish=lambda index, completion: told.append(index))
    assert [one.token_ids for one in halved] == [one.token_ids for one in whole]
    assert sorted(told) == list(range(12))
    assert max(sizes) <= 6
    limit = 1
    with pytest.raises(EngineError, match=r"out of memory while decoding \d+ rows .* lower rollout\.max_rows"):
        engine.generate(requests)
