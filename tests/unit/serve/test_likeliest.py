"""The model `likeliest` from request to answer: two drafts side by side, one of which becomes the answer when both have ended."""

from __future__ import annotations

import asyncio

import pytest

from agon.methods.registry import method_named
from agon.serve.models import run_models

TEXTS = {"A": "by a <answer>1</answer>", "B": "of b <answer>2</answer>"}
# Tokens: one a character, and one to stop.
NUM_A, NUM_B = (len(text) + 1 for text in TEXTS.values())


def say(turn):
    return TEXTS[turn.request.adapter]


def likelier(adapter):
    """Return logprobs under which that adapter's drafts are the likelier ones."""
    return lambda turn: -0.1 if turn.request.adapter == adapter else -0.7


def chat(client, **fields):
    return asyncio.run(client.chat(model="likeliest", **fields))


def ours_of(told):
    return [chunk["agon"] for chunk in told.events[:-1] if "agon" in chunk]


def deltas_of(told, name, choice=0):
    """The parts of the deltas that are not empty, one by one."""
    parts = [one for chunk in told.events[:-1] for one in chunk["choices"] if one["index"] == choice]
    return [part["delta"][name] for part in parts if part["delta"].get(name)]


@pytest.mark.parametrize(("winner", "answer", "stage"), [("A", "1", 0), ("B", "2", 1)])
def test_the_likelier_draft_is_the_answer_and_both_are_counted(make_service, client_of, winner, answer, stage):
    service = make_service(say, logprob=likelier(winner), seconds=0.02)
    told = chat(client_of(service), gold="2", seed=7).json
    assert told["model"] == "likeliest"
    assert told["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": TEXTS[winner], "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert told["usage"] == {
        "prompt_tokens": 3 + 3,
        "completion_tokens": NUM_A + NUM_B,
        "total_tokens": 6 + NUM_A + NUM_B,
        "completion_tokens_details": {"reasoning_tokens": NUM_B if winner == "A" else NUM_A},
        "stages": [
            {"choice": 0, "role": "drafter", "adapter": "A", "prompt_tokens": 3, "completion_tokens": NUM_A},
            {"choice": 0, "role": "drafter", "adapter": "B", "prompt_tokens": 3, "completion_tokens": NUM_B},
        ],
    }
    (ours,) = told["agon"]
    assert [(one["role"], one["adapter"], one["tokens"]) for one in ours.pop("stages")] == [
        ("drafter", "A", NUM_A),
        ("drafter", "B", NUM_B),
    ]
    assert ours == {
        "choice": 0,
        "direction": None,
        "seed": 7,
        "summary": None,
        "summary_is_empty": None,
        "final_stage": stage,
        "answer": answer,
        "verdict": "correct" if winner == "B" else "wrong",
        "reason": ours["reason"],
    }
    # Side by side.
    assert service.backend.most_open == 2


def test_the_other_draft_stands_where_clients_look_for_reasoning_if_it_is_asked_for(make_service, client_of):
    told = chat(client_of(make_service(say, logprob=likelier("B"))), include_draft=True).json
    message = told["choices"][0]["message"]
    assert (message["content"], message["reasoning"]) == (TEXTS["B"], TEXTS["A"])
    assert message["reasoning_content"] == message["reasoning"]
    assert [stage["text"] for stage in told["agon"][0]["stages"]] == [TEXTS["A"], TEXTS["B"]]


def test_stages_keep_their_order_whichever_ends_first(make_service, client_of):
    service = make_service(
        say, logprob=likelier("A"), seconds=lambda turn: 0.05 if turn.request.adapter == "A" else 0.0
    )
    told = chat(client_of(service), stream=True, include_draft=True, stream_options={"include_usage": True})
    ended = [one["adapter"] for one in ours_of(told) if one["event"] == "stage_ended"]
    assert ended == ["B", "A"]
    assert deltas_of(told, "content") == [TEXTS["A"]]
    assert [stage["adapter"] for stage in told.events[-2]["usage"]["stages"]] == ["A", "B"]


def test_a_stream_without_the_drafts_has_the_final_text_in_one_piece_and_nothing_of_the_other(make_service, client_of):
    client = client_of(make_service(say, logprob=likelier("B"), num_pieces=5))
    usage = {"include_usage": True}
    whole, told = chat(client, seed=9, gold="2"), chat(client, seed=9, gold="2", stream=True, stream_options=usage)
    assert deltas_of(told, "content") == [TEXTS["B"]]
    assert TEXTS["A"].encode() not in told.content
    assert ours_of(told) == [
        {
            "choice": 0,
            "event": "finished",
            "seed": 9,
            "final_stage": 1,
            "answer": "2",
            "verdict": "correct",
            "reason": None,
        }
    ]
    *_, last, done = told.events
    assert (last["usage"], done) == (whole.json["usage"], "[DONE]")


def test_a_stream_with_the_drafts_tells_of_each_as_it_grows_and_of_the_final_one_last(make_service, client_of):
    client = client_of(make_service(say, logprob=likelier("A"), num_pieces=5, seconds=0.02))
    told = chat(client, stream=True, include_draft=True, gold="2")
    ours = ours_of(told)
    assert [one["event"] for one in ours[:2]] == ["stage_started"] * 2
    assert [(one["stage"], one["adapter"]) for one in ours[:2]] == [(0, "A"), (1, "B")]
    grown = [one for one in ours if one["event"] == "grew"]
    for stage, adapter in enumerate("AB"):
        parts = [one["text"] for one in grown if (one["stage"], one["role"]) == (stage, "drafter")]
        assert len(parts) == 5
        assert "".join(parts) == TEXTS[adapter]
    # Not one after the other.
    assert [one["stage"] for one in grown] != sorted(one["stage"] for one in grown)
    assert deltas_of(told, "reasoning_content") == deltas_of(told, "reasoning") == [TEXTS["B"]]
    assert deltas_of(told, "content") == [TEXTS["A"]]
    texts = [chunk["choices"][0]["delta"] for chunk in told.events[:-1]]
    assert texts[-3:] == [{"reasoning_content": TEXTS["B"], "reasoning": TEXTS["B"]}, {"content": TEXTS["A"]}, {}]
    assert ours[-1]["event"] == "finished"
    assert (ours[-1]["final_stage"], ours[-1]["verdict"]) == (0, "wrong")
    assert [(one["adapter"], one["verdict"]) for one in ours[-1]["stages"]] == [("A", "wrong"), ("B", "correct")]


def test_several_choices_are_matches_of_their_own(make_service, client_of):
    def logprob(turn):
        """A's draft is the likelier one in the match numbered 1 alone."""
        return likelier("A" if turn.place == 1 else "B")(turn)

    client = client_of(make_service(say, logprob=logprob))
    whole, streamed = chat(client, n=3, seed=1), chat(client, n=3, seed=1, stream=True)
    contents = [choice["message"]["content"] for choice in whole.json["choices"]]
    assert contents == [TEXTS["B"], TEXTS["A"], TEXTS["B"]]
    assert [deltas_of(streamed, "content", choice) for choice in range(3)] == [[text] for text in contents]
    assert [ours["final_stage"] for ours in whole.json["agon"]] == [1, 0, 1]
    assert whole.json["usage"]["completion_tokens"] == 3 * (NUM_A + NUM_B)
    assert [stage["choice"] for stage in whole.json["usage"]["stages"]] == [0, 0, 1, 1, 2, 2]


def test_logprobs_are_those_of_the_final_text_whole_and_streamed(make_service, client_of):
    client = client_of(make_service(say, logprob=likelier("B"), num_pieces=5))
    whole, streamed = chat(client, logprobs=True), chat(client, logprobs=True, stream=True)
    tokens = whole.json["choices"][0]["logprobs"]["content"]
    assert "".join(token["token"] for token in tokens) == TEXTS["B"]
    assert [token["logprob"] for token in tokens] == [-0.1] * NUM_B
    told = [one["logprobs"] for chunk in streamed.events[:-1] for one in chunk["choices"] if one["logprobs"]]
    assert [one["content"] for one in told] == [tokens]


def test_a_draft_that_was_cut_stands_only_where_both_were(make_service, client_of):
    def long_of(*adapters):
        return lambda turn: "x" * 300 if turn.request.adapter in adapters else say(turn)

    # A is the likelier, but cut.
    one_cut = chat(client_of(make_service(long_of("A"), logprob=likelier("A"))), max_tokens=100).json
    assert one_cut["choices"][0]["message"]["content"] == TEXTS["B"]
    assert one_cut["choices"][0]["finish_reason"] == "stop"
    assert [stage["finish_reason"] for stage in one_cut["agon"][0]["stages"]] == ["length", "stop"]
    assert one_cut["usage"]["completion_tokens"] == 100 + NUM_B
    both = chat(client_of(make_service(long_of("A", "B"), logprob=likelier("B"))), max_tokens=100, gold="2").json
    assert both["choices"][0]["message"]["content"] == "x" * 100
    assert both["choices"][0]["finish_reason"] == "length"
    assert (both["agon"][0]["final_stage"], both["agon"][0]["answer"]) == (0, None)


def test_a_draft_without_an_answer_stands_only_where_neither_has_one(make_service, client_of):
    def mute(*adapters):
        return lambda turn: "I do not know" if turn.request.adapter in adapters else say(turn)

    (one,) = chat(client_of(make_service(mute("A"), logprob=likelier("A"))), gold="2").json["agon"]
    assert (one["final_stage"], one["answer"], one["verdict"]) == (1, "2", "correct")
    (none,) = chat(client_of(make_service(mute("A", "B"), logprob=likelier("B"))), gold="2").json["agon"]
    assert (none["final_stage"], none["answer"], none["verdict"]) == (0, None, "unparsed")


@pytest.mark.parametrize("fields", [{}, {"stream": True}, {"stream": True, "include_draft": True}, {"n": 2}])
def test_a_client_that_leaves_takes_both_drafts_along(make_service, client_of, fields):
    # One draft has ended, one is being written.
    service = make_service(say, seconds=lambda turn: 60.0 if turn.request.adapter == "B" else 0.0)
    backend, wanted = service.backend, fields.get("n", 1)

    async def leaves():
        async with asyncio.timeout(5):
            while (backend.num_open, backend.num_ended) != (wanted, wanted):
                await asyncio.sleep(0.001)

    told = chat(client_of(service), leaves=leaves, **fields)
    assert (backend.num_open, backend.num_given_up) == (0, wanted)
    assert service.admission.num_running == 0
    assert TEXTS["B"].encode() not in told.content
    assert b"[DONE]" not in told.content


def test_completions_take_the_prompt_as_the_problem(make_service, client_of):
    client = client_of(make_service(say, logprob=likelier("B"), num_pieces=5))
    fields = {"model": "likeliest", "gold": "2", "seed": 3, "logprobs": 0}
    whole = asyncio.run(client.complete("1+1", **fields)).json
    (choice,) = whole["choices"]
    assert choice["text"] == "".join(choice["logprobs"]["tokens"]) == TEXTS["B"]
    assert whole["agon"][0]["verdict"] == "correct"
    streamed = asyncio.run(client.complete("1+1", stream=True, include_draft=True, **fields))
    told = [chunk["choices"][0] for chunk in streamed.events[:-1]]
    assert [one["text"] for one in told if one["text"]] == [TEXTS["B"]]
    assert [one["logprobs"] for one in told if one["logprobs"]] == [choice["logprobs"]]
    grown = [one for one in ours_of(streamed) if one["event"] == "grew"]
    assert "".join(one["text"] for one in grown if one["stage"] == 0) == TEXTS["A"]
    ids = asyncio.run(client.complete([49, 43, 49], **fields))
    assert (ids.status, ids.error["param"]) == (400, "prompt")


def test_two_drafts_of_one_adapter_are_told_apart(make_service, client_of):
    seeds = []

    def by_seed(turn):
        seeds.append(turn.request.seed)
        return f"<answer>{turn.request.seed}</answer>"

    service = make_service(by_seed, offer={"models": run_models(method_named("grpo"), "a-b")})
    told = chat(client_of(service), include_draft=True, seed=4).json
    assert [stage["adapter"] for stage in told["usage"]["stages"]] == ["A", "A"]
    assert len(set(seeds)) == 2
    # As likely as each other: the first.
    assert told["agon"][0]["final_stage"] == 0
    assert told["choices"][0]["message"]["content"] == f"<answer>{seeds[0]}</answer>"
    assert told["choices"][0]["message"]["reasoning"] == f"<answer>{seeds[1]}</answer>"
