from __future__ import annotations

import asyncio

import pytest


def complete(client, prompt="1+1", **fields):
    return asyncio.run(client.complete(prompt, **fields))


def test_a_cascade_takes_the_prompt_as_the_problem(make_service, client_of):
    told = complete(client_of(make_service()), "1+1", gold="2")
    answer = told.json
    assert answer["object"] == "text_completion"
    assert answer["id"].startswith("cmpl-")
    assert answer["choices"] == [
        {"index": 0, "text": "challenger B: 1+1|drafter A: 1+1", "logprobs": None, "finish_reason": "stop"}
    ]
    assert [stage["role"] for stage in answer["usage"]["stages"]] == ["drafter", "challenger"]
    assert answer["agon"][0]["summary"] == "drafter A: 1+1"


def test_a_single_model_continues_the_text_as_it_stands(make_service, client_of):
    class Templates:
        def draft(self, problem):
            raise AssertionError("a raw prompt is in no template")

    client = client_of(make_service(offer={"prompts": Templates()}))
    # Blanks and all: nothing is stripped.
    told = complete(client, "  Once upon\n", model="base")
    assert told.json["choices"][0]["text"] == "drafter None:   Once upon\n"
    assert told.json["usage"]["prompt_tokens"] == 12


@pytest.mark.parametrize("prompt", [[72, 105], [[72, 105]], ["Hi"], "Hi"])
def test_a_prompt_may_be_token_ids_or_stand_in_a_list(make_service, client_of, prompt):
    told = complete(client_of(make_service()), prompt, model="drafter")
    assert told.json["choices"][0]["text"] == "drafter A: Hi"
    assert told.json["usage"]["prompt_tokens"] == 2


@pytest.mark.parametrize(
    ("prompt", "fields"),
    [
        (["a", "b"], {"model": "base"}),
        ([[1], [2]], {"model": "base"}),
        ([], {"model": "base"}),
        ("", {"model": "base"}),
        ([-1], {"model": "base"}),
        ([0x110000], {"model": "base"}),
        ([1, "a"], {"model": "base"}),
        ([True], {"model": "base"}),
        ({}, {"model": "base"}),
        (None, {"model": "base"}),
        ([72], {}),
        (" ", {}),
    ],
)
def test_prompts_that_cannot_be_continued_are_refused_by_name(make_service, client_of, prompt, fields):
    told = complete(client_of(make_service()), prompt, **fields)
    assert (told.status, told.error["param"]) == (400, "prompt")


def test_a_right_answer_to_bare_text_is_refused(make_service, client_of):
    told = complete(client_of(make_service()), model="base", gold="2")
    assert (told.status, told.error["param"]) == (400, "gold")


def test_endpoints_do_not_continue_bare_text(make_service, client_of):
    client = client_of(make_service(offer={"vocabulary": None}))
    told = complete(client, model="drafter")
    assert (told.status, told.error["param"]) == (400, "model")
    assert "/v1/chat/completions" in told.error["message"]
    assert complete(client).status == 200


def test_a_stream_adds_up_to_the_whole_answer(make_service, client_of):
    client = client_of(make_service(num_pieces=6))
    whole = complete(client, seed=1, n=2)
    streamed = complete(client, seed=1, n=2, stream=True, stream_options={"include_usage": True}, include_draft=True)
    *chunks, last, done = streamed.events
    assert done == "[DONE]"
    assert last["usage"] == whole.json["usage"]
    for choice in whole.json["choices"]:
        mine = [one for chunk in chunks for one in chunk["choices"] if one["index"] == choice["index"]]
        assert "".join(one["text"] for one in mine) == choice["text"]
        assert [one["finish_reason"] for one in mine if one["finish_reason"]] == ["stop"]
    events = [chunk["agon"]["event"] for chunk in chunks if "agon" in chunk and chunk["agon"]["choice"] == 0]
    assert [event for event in events if event != "grew"] == [
        "stage_started",
        "stage_ended",
        "crossed",
        "stage_started",
        "stage_ended",
        "finished",
    ]
    ours = [chunk["agon"] for chunk in chunks if "agon" in chunk]
    assert "".join(one["text"] for one in ours if one["event"] == "grew" and one["choice"] == 1) == "drafter A: 1+1"
