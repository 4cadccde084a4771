from __future__ import annotations

import asyncio
import math

import pytest

from agon.serve.logprobs import TokenTexts, chat_logprobs, completion_logprobs
from agon.serve.models import Vocabulary

# Two bytes of "é", and a stop token.
WORDS = {1: b"caf", 2: b"\xc3", 3: b"\xa9", 4: b" x"}
STOP = 9


class ByteText:
    """Holds back what is half a character."""

    def __init__(self):
        self.held = b""

    def add(self, token_ids):
        self.held += b"".join(WORDS[token] for token in token_ids)
        try:
            text, self.held = self.held.decode(), b""
        except UnicodeDecodeError as error:
            text, self.held = self.held[: error.start].decode(), self.held[error.start :]
        return text


VOCABULARY = Vocabulary(
    encode=lambda text: [], decode=lambda ids: "", size=10, open_text=ByteText, stop_ids=frozenset({STOP})
)


def test_a_character_of_several_tokens_belongs_to_the_last_of_them():
    texts = TokenTexts(VOCABULARY)
    assert texts.add([1, 2]) == ["caf", ""]
    assert texts.add([3, 4, STOP]) == ["é", " x", ""]


def test_a_whole_text_that_ends_in_half_a_character_is_still_the_sum_of_its_tokens():
    assert TokenTexts(VOCABULARY).all_of([1, 2], "caf\ufffd") == ["caf", "\ufffd"]
    assert TokenTexts(VOCABULARY).all_of([], "") == []


def test_a_token_that_a_stop_string_cut_is_told_whole_as_it_is_in_a_stream():
    assert TokenTexts(VOCABULARY).all_of([1, 4], "caf ") == ["caf", " x"]


def test_logprobs_that_json_cannot_say_are_the_least_that_openai_has():
    told = chat_logprobs(["a"], [-math.inf])
    assert told["content"] == [{"token": "a", "logprob": -9999.0, "bytes": [97], "top_logprobs": []}]
    assert completion_logprobs(["ab", "c"], [-1.0, -2.0], offset=5) == {
        "tokens": ["ab", "c"],
        "token_logprobs": [-1.0, -2.0],
        "top_logprobs": None,
        "text_offset": [5, 7],
    }


def script(turn):
    return "a draft" if turn.role == "drafter" else "one two three"


@pytest.mark.parametrize("fields", [{}, {"n": 2}, {"top_logprobs": 0}, {"model": "base"}, {"max_tokens": 4}])
def test_logprobs_are_those_of_the_final_text_whole_and_streamed(make_service, client_of, fields):
    client = client_of(make_service(script, num_pieces=4))
    whole = asyncio.run(client.chat(logprobs=True, **fields))
    streamed = asyncio.run(client.chat(logprobs=True, stream=True, **fields))
    pieces = {}
    for chunk in streamed.events[:-1]:
        for choice in chunk["choices"]:
            if choice["logprobs"] is not None:
                pieces.setdefault(choice["index"], []).extend(choice["logprobs"]["content"])
    stages = [stages[-1] for stages in (ours["stages"] for ours in whole.json["agon"])]
    for choice, stage in zip(whole.json["choices"], stages, strict=True):
        tokens = choice["logprobs"]["content"]
        assert "".join(token["token"] for token in tokens) == choice["message"]["content"]
        assert len(tokens) == stage["tokens"]
        assert {token["logprob"] for token in tokens} == {-0.5}
        assert pieces[choice["index"]] == tokens


def test_a_text_that_a_stop_string_cut_has_the_logprobs_of_what_is_left(make_service, client_of):
    client = client_of(make_service(script, num_pieces=4))
    whole = asyncio.run(client.chat(logprobs=True, stop=" three"))
    tokens = whole.json["choices"][0]["logprobs"]["content"]
    assert "".join(token["token"] for token in tokens) == "one two"
    assert len(tokens) == 7


def test_completions_tell_where_each_token_begins(make_service, client_of):
    client = client_of(make_service(script, num_pieces=4))
    whole = asyncio.run(client.complete(model="base", logprobs=0))
    told = whole.json["choices"][0]["logprobs"]
    assert told["tokens"] == [*"a draft", ""]
    assert told["text_offset"] == [0, 1, 2, 3, 4, 5, 6, 7]
    streamed = asyncio.run(client.complete(model="base", logprobs=0, stream=True))
    offsets = [
        offset
        for chunk in streamed.events[:-1]
        for choice in chunk["choices"]
        if choice["logprobs"]
        for offset in choice["logprobs"]["text_offset"]
    ]
    assert offsets == told["text_offset"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"logprobs": True, "top_logprobs": 5}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
        ({"logprobs": 1}, "logprobs"),
    ],
)
def test_logprobs_that_are_not_known_are_refused(make_service, client_of, fields, param):
    told = asyncio.run(client_of(make_service(script)).chat(**fields))
    assert (told.status, told.error["param"]) == (400, param)


def test_endpoints_whose_tokens_nobody_knows_have_no_logprobs(make_service, client_of):
    client = client_of(make_service(script, offer={"vocabulary": None}))
    chat = asyncio.run(client.chat(logprobs=True))
    completion = asyncio.run(client.complete(logprobs=0))
    assert (chat.status, chat.error["param"]) == (completion.status, completion.error["param"]) == (400, "logprobs")
