from __future__ import annotations

import asyncio

import pytest


def chat(client, **fields):
    return asyncio.run(client.chat(**fields))


def script(turn):
    return f"draft of {turn.place}" if turn.role == "drafter" else f"<answer>{turn.place + 1}</answer>"


def deltas(told, name):
    """The texts of one part of the deltas, joined by choice."""
    texts = {}
    for chunk in told.events[:-1]:
        for choice in chunk["choices"]:
            if name in choice["delta"]:
                texts[choice["index"]] = texts.get(choice["index"], "") + choice["delta"][name]
    return texts


def test_an_answer_is_the_challenges_text_and_counts_every_stage(make_service, client_of):
    told = chat(client_of(make_service(script)), text="1+1", gold="1", seed=7)
    answer = told.json
    assert answer["object"] == "chat.completion"
    assert answer["id"].startswith("chatcmpl-")
    assert answer["model"] == "cascade"
    assert answer["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "<answer>1</answer>", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    # One token a character and a stop token. "1+1" is read by the draft, "1+1|draft of 0" by the challenge.
    assert answer["usage"] == {
        "prompt_tokens": 3 + 14,
        "completion_tokens": 11 + 19,
        "total_tokens": 47,
        "completion_tokens_details": {"reasoning_tokens": 11},
        "stages": [
            {"choice": 0, "role": "drafter", "adapter": "A", "prompt_tokens": 3, "completion_tokens": 11},
            {"choice": 0, "role": "challenger", "adapter": "B", "prompt_tokens": 14, "completion_tokens": 19},
        ],
    }
    (ours,) = answer["agon"]
    stages = ours.pop("stages")
    assert ours == {
        "choice": 0,
        "direction": "a-b",
        "seed": 7,
        "summary": "draft of 0",
        "summary_is_empty": False,
        "final_stage": 1,
        "answer": "1",
        "verdict": "correct",
        "reason": None,
    }
    assert [(stage["role"], stage["adapter"], stage["tokens"]) for stage in stages] == [
        ("drafter", "A", 11),
        ("challenger", "B", 19),
    ]
    assert not any("text" in stage for stage in stages)


def test_the_draft_is_shown_where_clients_look_for_reasoning_if_it_is_asked_for(make_service, client_of):
    told = chat(client_of(make_service(script)), include_draft=True)
    message = told.json["choices"][0]["message"]
    assert message["content"] == "<answer>1</answer>"
    assert message["reasoning"] == message["reasoning_content"]
    assert message["reasoning"].startswith("draft of 0\n\n")
    assert message["reasoning"].endswith("\ndraft of 0")
    assert [stage["text"] for stage in told.json["agon"][0]["stages"]] == ["draft of 0", "<answer>1</answer>"]


def test_a_single_model_answers_with_its_draft(make_service, client_of):
    client = client_of(make_service(script))
    for model, adapter in (("drafter", "A"), ("challenger", "B"), ("base", None)):
        told = chat(client, model=model, include_draft=True)
        (ours,) = told.json["agon"]
        assert told.json["choices"][0]["message"] == {
            "role": "assistant",
            "content": "draft of 0",
            "refusal": None,
        }
        assert told.json["usage"]["completion_tokens_details"] == {"reasoning_tokens": 0}
        assert (ours["direction"], ours["summary"], ours["summary_is_empty"]) == (None, None, None)
        assert [(stage["role"], stage["adapter"]) for stage in ours["stages"]] == [("drafter", adapter)]


def test_an_answer_that_nobody_can_judge_has_no_verdict(make_service, client_of):
    (ours,) = chat(client_of(make_service(script))).json["agon"]
    assert (ours["answer"], ours["verdict"]) == ("1", None)
    assert ours["reason"] == "not checked: no right answer was given"


def test_several_choices_are_matches_of_their_own(make_service, client_of):
    told = chat(client_of(make_service(script)), n=3, seed=1)
    contents = [choice["message"]["content"] for choice in told.json["choices"]]
    assert contents == ["<answer>1</answer>", "<answer>2</answer>", "<answer>3</answer>"]
    assert [choice["index"] for choice in told.json["choices"]] == [0, 1, 2]
    assert [ours["summary"] for ours in told.json["agon"]] == ["draft of 0", "draft of 1", "draft of 2"]
    assert told.json["usage"]["completion_tokens"] == 3 * (11 + 19)
    assert [stage["choice"] for stage in told.json["usage"]["stages"]] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("fields", [{}, {"n": 3}, {"stop": ["</answer>"]}, {"max_tokens": 5}, {"model": "base"}])
def test_the_texts_of_a_stream_add_up_to_the_whole_answer(make_service, client_of, fields):
    client = client_of(make_service(script, num_pieces=5))
    whole = chat(client, seed=3, **fields)
    streamed = chat(client, seed=3, stream=True, stream_options={"include_usage": True}, **fields)
    texts = deltas(streamed, "content")
    assert [texts[choice["index"]] for choice in whole.json["choices"]] == [
        choice["message"]["content"] for choice in whole.json["choices"]
    ]
    *chunks, last, done = streamed.events
    assert done == "[DONE]"
    assert last["choices"] == []
    assert last["usage"] == whole.json["usage"]
    assert all(chunk["usage"] is None for chunk in chunks)
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    ends = {choice["index"]: choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]}
    assert ends == {choice["index"]: choice["finish_reason"] for choice in whole.json["choices"]}


def test_a_stream_begins_with_who_speaks_and_has_no_usage_unasked(make_service, client_of):
    told = chat(client_of(make_service(script)), stream=True, n=2)
    first, second, *rest, last, done = told.events
    assert [chunk["choices"][0]["index"] for chunk in (first, second)] == [0, 1]
    assert {"role": "assistant", "content": ""} == first["choices"][0]["delta"] == second["choices"][0]["delta"]
    assert not any("usage" in chunk for chunk in (first, second, *rest, last))
    assert last["choices"][0]["finish_reason"] == "stop"
    assert done == "[DONE]"


def test_a_stream_without_the_draft_tells_nothing_of_it(make_service, client_of):
    told = chat(client_of(make_service(script, num_pieces=5)), stream=True, gold="1", seed=9)
    assert b"draft of 0" not in told.content
    ours = [chunk["agon"] for chunk in told.events[:-1] if "agon" in chunk]
    outcome = {"final_stage": 1, "answer": "1", "verdict": "correct", "reason": None}
    assert ours == [{"choice": 0, "event": "finished", "seed": 9, **outcome}]


def test_a_stream_with_the_draft_tells_of_every_stage_in_order(make_service, client_of):
    told = chat(client_of(make_service(script, num_pieces=5)), stream=True, include_draft=True)
    assert deltas(told, "reasoning_content") == deltas(told, "reasoning") == {0: "draft of 0"}
    ours = [chunk["agon"] for chunk in told.events[:-1] if "agon" in chunk]
    for one in ours:
        one.pop("seconds", None)
    assert ours[:5] == [
        {"choice": 0, "event": "stage_started", "stage": 0, "role": "drafter", "adapter": "A"},
        {
            "choice": 0,
            "event": "stage_ended",
            "stage": 0,
            "role": "drafter",
            "adapter": "A",
            "tokens": 11,
            "prompt_tokens": 3,
            "finish_reason": "stop",
        },
        {
            "choice": 0,
            "event": "crossed",
            "summary": "draft of 0",
            "is_empty": False,
            "num_withheld": 0,
            "has_leak": False,
            "is_cut": False,
        },
        {"choice": 0, "event": "stage_started", "stage": 1, "role": "challenger", "adapter": "B"},
        {
            "choice": 0,
            "event": "stage_ended",
            "stage": 1,
            "role": "challenger",
            "adapter": "B",
            "tokens": 19,
            "prompt_tokens": 14,
            "finish_reason": "stop",
        },
    ]
    assert ours[5]["event"] == "finished"
    with_event = [chunk for chunk in told.events[:-1] if "agon" in chunk]
    assert all(chunk["choices"][0]["delta"] == {} for chunk in with_event)
    # The end of a choice is told once, and last.
    assert [chunk["choices"][0]["finish_reason"] for chunk in told.events[:-1]][-1] == "stop"


def test_a_truncated_answer_ends_by_length(make_service, client_of):
    told = chat(client_of(make_service(script)), max_completion_tokens=4)
    (choice,) = told.json["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("<ans", "length")


def test_letters_of_other_scripts_travel_as_themselves(make_service, client_of):
    text = "ответ 答え 👩‍👩‍👧 \u2028 \U0001f600"
    client = client_of(make_service(lambda turn: text, num_pieces=7))
    whole, streamed = chat(client, model="base"), chat(client, model="base", stream=True)
    assert whole.json["choices"][0]["message"]["content"] == text
    assert "答え".encode() in whole.content
    assert deltas(streamed, "content") == {0: text}
