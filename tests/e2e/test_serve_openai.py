"""A served pair through the official client, as its users have it."""

from __future__ import annotations

import asyncio
from functools import partial
from statistics import mean

import httpx
import openai
import pytest

PROBLEM = "12 7 5 = 24"
# Patient: the machine may be busy.
get = partial(httpx.get, timeout=60)
MESSAGES = [{"role": "user", "content": PROBLEM}]


@pytest.fixture(scope="module")
def client(served):
    with openai.OpenAI(base_url=f"{served}/v1", api_key="none is needed", max_retries=0, timeout=60) as client:
        yield client


def test_models_are_listed_and_looked_up(client):
    names = [model.id for model in client.models.list()]
    assert names == ["cascade", "cascade-a-b", "likeliest", "drafter", "challenger", "base"]
    found = client.models.retrieve("cascade")
    assert found.agon["direction"] == "b-a"
    assert [stage["adapter"] for stage in found.agon["stages"]] == ["B", "A"]
    with pytest.raises(openai.NotFoundError, match="there are cascade, cascade-a-b, likeliest, drafter") as told:
        client.models.retrieve("gpt-4o")
    assert (told.value.code, told.value.param) == ("model_not_found", "model")


def test_a_chat_tells_draft_challenge_tokens_and_verdict(client):
    answer = client.chat.completions.create(
        model="cascade", messages=MESSAGES, seed=1, extra_body={"include_draft": True}
    )
    (choice,), (ours,) = answer.choices, answer.agon
    draft, challenge = ours["stages"]
    assert choice.finish_reason == "stop"
    assert choice.message.content == challenge["text"]
    assert choice.message.reasoning_content.startswith(draft["text"])
    assert choice.message.reasoning_content.endswith(ours["summary"])
    assert ours["verdict"] in ("correct", "wrong", "unparsed")
    assert ours["answer"] is None or ours["answer"] in challenge["text"]
    usage = answer.usage
    assert usage.completion_tokens == draft["tokens"] + challenge["tokens"]
    assert usage.completion_tokens_details.reasoning_tokens == draft["tokens"]
    assert usage.prompt_tokens == draft["prompt_tokens"] + challenge["prompt_tokens"]
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert [stage["role"] for stage in usage.stages] == ["drafter", "challenger"]


def test_without_asking_nothing_is_seen_of_the_draft(client):
    answer = client.chat.completions.create(model="cascade", messages=MESSAGES, seed=1)
    assert not hasattr(answer.choices[0].message, "reasoning_content")
    assert all("text" not in stage for stage in answer.agon[0]["stages"])


@pytest.mark.parametrize("model", ["cascade", "cascade-a-b", "likeliest", "drafter", "challenger", "base"])
def test_a_stream_adds_up_to_the_whole_answer(client, model):
    whole = client.chat.completions.create(model=model, messages=MESSAGES, seed=5)
    chunks = list(
        client.chat.completions.create(
            model=model, messages=MESSAGES, seed=5, stream=True, stream_options={"include_usage": True}
        )
    )
    *pieces, last = chunks
    assert "".join(chunk.choices[0].delta.content or "" for chunk in pieces) == whole.choices[0].message.content
    assert [chunk.choices[0].finish_reason for chunk in pieces if chunk.choices[0].finish_reason] == ["stop"]
    assert last.choices == []
    assert last.usage == whole.usage
    assert {chunk.id for chunk in chunks} == {chunks[0].id}


def test_the_clients_own_helper_for_streams_reads_them(client):
    with client.chat.completions.stream(model="cascade", messages=MESSAGES, seed=5) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion().choices[0]
    assert {"chunk", "content.delta", "content.done"} <= kinds
    whole = client.chat.completions.create(model="cascade", messages=MESSAGES, seed=5)
    assert final.message.content == whole.choices[0].message.content


def test_the_stages_of_a_stream_come_in_their_order(client):
    stream = client.chat.completions.create(
        model="cascade", messages=MESSAGES, seed=5, stream=True, extra_body={"include_draft": True}
    )
    told, texts = [], {"reasoning_content": "", "content": ""}
    for chunk in stream:
        event = getattr(chunk, "agon", None)
        told += [event["event"]] if event else []
        delta = chunk.choices[0].delta.model_dump()
        for name in texts:
            texts[name] += delta.get(name) or ""
        # Not a letter of the challenge before its draft has ended.
        assert not texts["content"] or "crossed" in told
    assert told == ["stage_started", "stage_ended", "crossed", "stage_started", "stage_ended", "finished"]
    assert all(texts.values())


def test_of_one_draft_of_each_adapter_the_likelier_is_the_answer(client):
    def ask(**fields):
        return client.chat.completions.create(
            messages=MESSAGES, n=8, logprobs=True, extra_body={"include_draft": True}, **fields
        )

    def mean_logprob(choice):
        return mean(token.logprob for token in choice.logprobs.content)

    both, alone = ask(model="likeliest", seed=7), ask(model="challenger", seed=7)
    stood = set()
    for choice, ours, of_a, ours_of_a in zip(both.choices, both.agon, alone.choices, alone.agon, strict=True):
        first, second = ours["stages"]
        assert (first["adapter"], second["adapter"]) == ("A", "B")
        # Of this run A alone is the challenger; its draft is the same, whatever is written beside it.
        assert first["text"] == of_a.message.content
        final, other = (first, second) if ours["final_stage"] == 0 else (second, first)
        assert (choice.message.content, choice.message.reasoning_content) == (final["text"], other["text"])
        assert len(choice.logprobs.content) == final["tokens"]
        if final is second and ours_of_a["answer"] is not None:
            assert mean_logprob(choice) > mean_logprob(of_a)
        stood.add(ours["final_stage"])
    assert stood == {0, 1}
    assert both.usage.completion_tokens == sum(stage["tokens"] for ours in both.agon for stage in ours["stages"])
    stream = client.chat.completions.create(
        model="likeliest", messages=MESSAGES, seed=7, stream=True, extra_body={"include_draft": True}
    )
    texts, told = ["", ""], []
    for chunk in stream:
        event = getattr(chunk, "agon", None) or {}
        told.append(event.get("event") or ("content" if chunk.choices[0].delta.content else "other"))
        if told[-1] == "grew":
            texts[event["stage"]] += event["text"]
    assert texts == [stage["text"] for stage in both.agon[0]["stages"]]
    # In one piece, when both drafts have ended.
    assert told.count("content") == 1
    assert told.index("content") > max(at for at, event in enumerate(told) if event == "stage_ended")


def test_each_of_several_choices_has_its_own_match_and_the_first_is_that_of_one(client):
    one, many = (client.chat.completions.create(model="cascade", messages=MESSAGES, n=n, seed=7) for n in (1, 4))
    assert [choice.index for choice in many.choices] == [0, 1, 2, 3]
    assert many.choices[0].message.content == one.choices[0].message.content
    assert len(many.usage.stages) == 8
    assert many.usage.completion_tokens == sum(stage["completion_tokens"] for stage in many.usage.stages)


def test_caps_and_stop_strings_end_the_final_text(client):
    def final(**fields):
        answer = client.chat.completions.create(model="cascade", messages=MESSAGES, seed=2, **fields)
        return answer.choices[0]

    whole = final().message.content
    cut = final(max_completion_tokens=3)
    assert cut.finish_reason == "length"
    assert whole.startswith(cut.message.content)
    stopped = final(stop=["</think>", "never there"])
    assert stopped.finish_reason == "stop"
    assert stopped.message.content == whole.partition("</think>")[0]


def test_the_logprobs_of_a_chat_are_those_of_its_final_text(client):
    (choice,) = client.chat.completions.create(model="cascade", messages=MESSAGES, seed=2, logprobs=True).choices
    tokens = choice.logprobs.content
    assert "".join(token.token for token in tokens) == choice.message.content
    assert b"".join(bytes(token.bytes) for token in tokens).decode() == choice.message.content
    assert all(token.logprob <= 0 for token in tokens)
    chunks = client.chat.completions.create(model="cascade", messages=MESSAGES, seed=2, logprobs=True, stream=True)
    streamed = [token for chunk in chunks for part in chunk.choices if part.logprobs for token in part.logprobs.content]
    assert [token.token for token in streamed] == [token.token for token in tokens]


def test_completions_continue_bare_text_and_cascades_take_it_as_the_problem(client):
    bare = client.completions.create(model="drafter", prompt="a 12 b 7", seed=1, max_tokens=4, logprobs=0)
    (choice,) = bare.choices
    assert bare.usage.completion_tokens <= 4
    assert "".join(choice.logprobs.tokens) == choice.text
    solved = client.completions.create(model="cascade", prompt=PROBLEM, seed=1)
    chatted = client.chat.completions.create(model="cascade", messages=MESSAGES, seed=1)
    assert solved.choices[0].text == chatted.choices[0].message.content
    streamed = client.completions.create(model="cascade", prompt=PROBLEM, seed=1, stream=True)
    assert "".join(chunk.choices[0].text for chunk in streamed) == solved.choices[0].text


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"frequency_penalty": 0.5}, "frequency_penalty"),
        ({"logit_bias": {"5": 1}}, "logit_bias"),
        ({"n": 1000}, "n"),
        ({"temperature": 3}, "temperature"),
        ({"logprobs": True, "top_logprobs": 5}, "top_logprobs"),
        ({"max_tokens": 3, "max_completion_tokens": 4}, "max_completion_tokens"),
        ({"max_tokens": 10_000}, "messages"),
        ({"model": "likeliest", "temperature": 0}, "temperature"),
        ({"model": "likeliest", "stop": "</think>"}, "stop"),
        ({"extra_body": {"foo": 1}}, "foo"),
        ({"messages": [{"role": "system", "content": "be brief"}, *MESSAGES]}, "messages"),
        ({"messages": [{"role": "user", "content": "how are you?"}]}, "messages"),
    ],
)
def test_what_is_not_supported_is_a_bad_request_that_names_its_field(client, fields, param):
    with pytest.raises(openai.BadRequestError) as told:
        client.chat.completions.create(**{"model": "cascade", "messages": MESSAGES, **fields})
    assert told.value.param == param
    assert told.value.type == "invalid_request_error"


def test_routes_that_are_not_there_are_not_found(client):
    for ask in (
        lambda: client.responses.create(model="cascade", input=PROBLEM),
        lambda: client.embeddings.create(model="cascade", input=PROBLEM),
    ):
        with pytest.raises(openai.NotFoundError, match="no such route"):
            ask()


def test_many_at_once_get_what_each_gets_alone(served, client):
    def asked(number):
        # Of numbers from 1 to 15.
        problem = [{"role": "user", "content": f"{number} 7 5 = 24"}]
        return {"model": "cascade", "messages": problem, "seed": number}

    async def ask_all():
        async with openai.AsyncOpenAI(base_url=f"{served}/v1", api_key="none", max_retries=0, timeout=60) as many:
            return await asyncio.gather(*(many.chat.completions.create(**asked(number)) for number in range(1, 16)))

    answers = asyncio.run(ask_all())
    assert [answer.agon[0]["seed"] for answer in answers] == list(range(1, 16))
    for number in (1, 8, 15):
        alone = client.chat.completions.create(**asked(number))
        assert answers[number - 1].choices[0].message.content == alone.choices[0].message.content


def test_an_async_stream_that_is_left_gives_everything_up(served, client):
    def num_left():
        lines = get(f"{served}/metrics").text.splitlines()
        return sum(float(line.split()[1]) for line in lines if line.startswith('agon_cancelled_total{reason="client"}'))

    before = num_left()

    async def leave():
        async with openai.AsyncOpenAI(base_url=f"{served}/v1", api_key="none", max_retries=0, timeout=60) as client:
            stream = await client.completions.create(
                model="base", prompt="12", n=8, max_tokens=240, temperature=2, stream=True
            )
            async for _ in stream:
                break
            await stream.close()

    asyncio.run(leave())
    answer = client.chat.completions.create(model="cascade", messages=MESSAGES)
    assert answer.choices[0].message.content
    assert num_left() == before + 1
