from __future__ import annotations

from typing import get_type_hints

import pytest

from agon.serve.errors import RequestError
from agon.serve.schema import ChatBody, CompletionBody, read_chat, read_completion

MESSAGES = [{"role": "user", "content": "1+1"}]

# A value of each field of OpenAI's that asks for something.
ASKING = {
    "audio": {"voice": "alloy", "format": "mp3"},
    "best_of": 2,
    "echo": True,
    "frequency_penalty": 0.5,
    "function_call": {"name": "f"},
    "functions": [{"name": "f"}],
    "logit_bias": {"50256": -100},
    "modalities": ["text", "audio"],
    "moderation": {"model": "m"},
    "prediction": {"type": "content", "content": "x"},
    "presence_penalty": -0.5,
    "prompt_cache_key": "k",
    "prompt_cache_options": {"mode": "explicit"},
    "prompt_cache_retention": "24h",
    "reasoning_effort": "low",
    "response_format": {"type": "json_object"},
    "safety_identifier": "s",
    "service_tier": "flex",
    "store": True,
    "suffix": "the end",
    "tool_choice": "required",
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "verbosity": "high",
    "web_search_options": {},
}
NEUTRAL = {
    "frequency_penalty": 0,
    "presence_penalty": 0.0,
    "logit_bias": {},
    "response_format": {"type": "text"},
    "tools": [],
    "tool_choice": "none",
    "functions": [],
    "function_call": "auto",
    "parallel_tool_calls": True,
    "modalities": ["text"],
    "service_tier": "auto",
    "store": False,
    "verbosity": "medium",
    "best_of": 1,
    "echo": False,
    "suffix": "",
    "stream": False,
    "n": 1,
    "top_p": 1,
    "temperature": 1,
}


def refused(read=read_chat, **fields):
    with pytest.raises(RequestError) as error:
        read({"messages": MESSAGES, **fields} if read is read_chat else {"prompt": "x", **fields})
    assert error.value.status == 400
    return error.value


@pytest.mark.parametrize("field", sorted(ASKING))
def test_a_field_that_does_nothing_here_is_refused_by_name(field):
    error = refused(**{field: ASKING[field]})
    assert (error.param, error.code) == (field, "unsupported_parameter")
    assert refused(read_completion, **{field: ASKING[field]}).param == field


@pytest.mark.parametrize("field", sorted(NEUTRAL))
def test_a_field_that_asks_for_nothing_may_be_sent(field):
    assert read_chat({"messages": MESSAGES, field: NEUTRAL[field]}).messages[0].text == "1+1"
    assert read_chat({"messages": MESSAGES, field: None}) == read_chat({"messages": MESSAGES})


def test_truth_is_not_taken_for_a_number():
    assert refused(frequency_penalty=False).param == "frequency_penalty"
    assert refused(store=0).param == "store"


def test_every_field_that_the_official_client_knows_works_or_is_refused_by_name():
    params = pytest.importorskip("openai.types.chat.completion_create_params")
    plain = pytest.importorskip("openai.types.completion_create_params")
    chat = get_type_hints(params.CompletionCreateParamsStreaming)
    completion = get_type_hints(plain.CompletionCreateParamsStreaming)
    assert len(chat) > 30
    for field in chat:
        assert field in ChatBody.model_fields or refused(**{field: object()}).code == "unsupported_parameter", field
    for field in completion:
        is_known = field in CompletionBody.model_fields
        assert is_known or refused(read_completion, **{field: object()}).code == "unsupported_parameter", field


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"foo": 1}, "foo"),
        ({"top_k": 5}, "top_k"),
        ({"max_token": 5}, "max_token"),
        ({"prompt": "x"}, "prompt"),
        ({"messages": [{"role": "user", "content": "x", "name": "me"}]}, "messages[0].name"),
        ({"messages": [{"role": "user", "content": "x", "tool_calls": [{}]}]}, "messages[0].tool_calls"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [*MESSAGES, {"role": "robot", "content": "x"}]}, "messages[1].role"),
        ({"stop": [""]}, "stop[0]"),
        ({"stop": ["a", 1]}, "stop[1]"),
        ({"stop": 5}, "stop"),
        ({"stop": {"a": 1}}, "stop"),
        ({"n": 9}, "n"),
        ({"n": 1.0}, "n"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_draft_tokens": 0}, "max_draft_tokens"),
        ({"max_summary_tokens": "5"}, "max_summary_tokens"),
        ({"temperature": "0.5"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"temperature": 0.001}, "temperature"),
        ({"top_p": 1.01}, "top_p"),
        ({"stream": 1}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"stream": True, "stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
        ({"stream": True, "stream_options": {"foo": True}}, "stream_options.foo"),
        ({"user": 5}, "user"),
        ({"metadata": {"a": 1}}, "metadata.a"),
        ({"metadata": {str(number): "x" for number in range(17)}}, "metadata"),
        ({"include_draft": "yes"}, "include_draft"),
        ({"gold": ""}, "gold"),
        ({"gold": 2}, "gold"),
        ({"seed": -(2**63) - 1}, "seed"),
        ({"top_logprobs": 1}, "top_logprobs"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_by_its_place(fields, param):
    error = refused(**fields)
    assert error.param == param
    assert len(str(error)) < 300


def test_an_answer_can_be_sent_back_as_the_official_client_gives_it():
    part = {"type": "text", "text": "2"}
    nothing = {"refusal": None, "annotations": [], "audio": None, "function_call": None, "tool_calls": None}
    said = [*MESSAGES, {"role": "assistant", "content": [part], "name": None, **nothing}, *MESSAGES]
    assert [message.text for message in read_chat({"messages": said}).messages] == ["1+1", "2", "1+1"]
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    for something in ({"refusal": "no"}, {"tool_calls": calls}, {"name": ""}, {"annotations": {}}):
        with pytest.raises(RequestError, match="leave it out"):
            read_chat({"messages": [{**MESSAGES[0], **something}]})
    for content in (None, [{"type": "text", "text": None}]):
        with pytest.raises(RequestError, match="is null"):
            read_chat({"messages": [{"role": "user", "content": content}]})


def test_a_slip_of_the_pen_gets_a_hint():
    assert "did you mean 'max_tokens'?" in str(refused(max_token=5))


def test_what_a_message_quotes_of_a_client_is_short_however_long_or_deep_it_is():
    deep = []
    for _ in range(500):
        deep = [deep]
    for value in ("x" * 10**6, deep, {"a": "x" * 10**6}, 10**400):
        for field in ("temperature", "logit_bias", "stop", "k" * 10**5):
            assert len(str(refused(**{field: value}))) < 300


def test_notes_of_the_clients_own_are_taken():
    body = read_chat({"messages": MESSAGES, "user": "me", "metadata": {"a": "b"}})
    assert (body.user, body.metadata) == ("me", {"a": "b"})


def test_one_stop_string_is_a_list_of_one():
    assert read_chat({"messages": MESSAGES, "stop": "a"}).stop == ["a"]
    assert read_chat({"messages": MESSAGES, "stop": ["a", "b", "c", "d"]}).stop == ["a", "b", "c", "d"]
