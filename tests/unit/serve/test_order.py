from __future__ import annotations

import asyncio
import threading

import pytest

from agon.config import TaskSettings
from agon.match.asking import Sampling
from agon.serve.errors import RequestError
from agon.serve.order import chat_order, completion_order
from agon.serve.records import Message
from agon.serve.schema import read_chat, read_completion


def order_of(service, messages="1+1", **fields):
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    body = read_chat({"messages": messages, **fields})
    return asyncio.run(chat_order(body, service.offer, service.context_check))


def refused(service, messages="1+1", **fields):
    with pytest.raises(RequestError) as error:
        order_of(service, messages, **fields)
    return error.value


def test_a_chat_becomes_a_job(make_service):
    service = make_service()
    order = order_of(service, n=2, stop=["a", "b"], seed=5, temperature=0, top_p=0.5, stream=True, gold="2")
    job = order.job
    assert (job.problem.question, job.problem.gold, job.can_check) == ("1+1", "2", True)
    assert (job.samples, job.seed, job.stop, job.wants_text) == (2, 5, ("a", "b"), True)
    assert (job.sampling.temperature, job.sampling.top_p) == (0.0, 0.5)
    assert job.lineup == service.offer.models["cascade"]
    assert job.before == ()
    assert order.model == "cascade"


def test_what_is_not_asked_for_is_the_runs_own(make_service):
    service = make_service(sampling=Sampling(11, 22, 33, temperature=0.6, top_p=0.95))
    assert order_of(service).job.sampling == service.offer.sampling
    assert not order_of(service).job.wants_text


def test_drafts_are_read_as_they_grow_by_those_alone_who_asked_for_them(make_service):
    hidden, shown = (order_of(make_service(), stream=True, include_draft=value).job for value in (False, True))
    assert [job.is_read_as_it_grows("drafter") for job in (hidden, shown)] == [False, True]
    assert [job.is_read_as_it_grows("challenger") for job in (hidden, shown)] == [True, True]
    alone = order_of(make_service(), stream=True, model="drafter").job
    assert alone.is_read_as_it_grows("drafter")


@pytest.mark.parametrize(
    ("fields", "caps"),
    [
        ({"max_tokens": 5}, (200, 5, 100)),
        ({"max_completion_tokens": 5}, (200, 5, 100)),
        ({"max_tokens": 5, "max_completion_tokens": 5}, (200, 5, 100)),
        ({"max_draft_tokens": 5, "max_summary_tokens": 6}, (5, 200, 6)),
        ({"max_tokens": 5, "model": "drafter"}, (5, 200, 100)),
    ],
)
def test_max_tokens_are_those_of_the_final_stage(make_service, fields, caps):
    sampling = order_of(make_service(), **fields).job.sampling
    assert (sampling.max_draft_tokens, sampling.max_challenge_tokens, sampling.max_summary_tokens) == caps


def test_two_different_caps_are_refused(make_service):
    error = refused(make_service(), max_tokens=5, max_completion_tokens=6)
    assert error.param == "max_completion_tokens"


@pytest.mark.parametrize("model", ["base", "likeliest"])
@pytest.mark.parametrize("field", ["max_draft_tokens", "max_summary_tokens"])
def test_a_model_without_a_challenge_has_one_cap(make_service, field, model):
    assert refused(make_service(), model=model, **{field: 5}).param == field
    assert order_of(make_service(), model=model, max_tokens=5).job.sampling.max_draft_tokens == 5


def test_at_temperature_0_no_draft_is_the_likeliest_whoever_set_it(make_service):
    asked = refused(make_service(), model="likeliest", temperature=0)
    service = make_service(sampling=Sampling(11, 22, 33, temperature=0.0))
    default = refused(service, model="likeliest")
    assert str(asked) == str(default)
    assert (asked.status, asked.param, asked.code) == (400, "temperature", "invalid_value")
    assert "send one above 0" in str(asked)
    assert order_of(service, model="likeliest", temperature=0.01).job.sampling.temperature == 0.01
    assert order_of(service, model="drafter").job.sampling.temperature == 0.0


def test_stop_strings_are_refused_where_the_final_text_is_known_too_late(make_service):
    error = refused(make_service(), model="likeliest", stop="END")
    assert (error.status, error.param) == (400, "stop")
    assert "leave it out" in str(error)
    assert order_of(make_service(), model="drafter", stop="END").job.stop == ("END",)


def test_a_seed_is_drawn_where_none_is_given(make_service):
    service = make_service()
    seeds = {order_of(service).job.seed for _ in range(20)}
    assert len(seeds) == 20
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_text_parts_are_lines(make_service):
    parts = [{"type": "text", "text": "what is"}, {"type": "text", "text": "1+1?"}]
    assert order_of(make_service(), [{"role": "user", "content": parts}]).job.problem.question == "what is\n1+1?"


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "system", "content": "be brief"}, {"role": "user", "content": "1+1"}],
        [{"role": "developer", "content": "1+1"}],
        [{"role": "assistant", "content": "1+1"}],
        [{"role": "tool", "content": "1+1"}],
        [{"role": "user", "content": "1+1"}] * 2,
    ],
)
def test_a_trained_pair_takes_one_problem_and_no_conversation(make_service, messages):
    error = refused(make_service(), messages)
    assert (error.status, error.param) == (400, "messages")
    assert "trained on single problems" in str(error)


def test_endpoints_take_a_conversation_that_ends_with_the_problem(make_service):
    service = make_service(offer={"takes_conversations": True})
    messages = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": "1+1"},
    ]
    job = order_of(service, messages).job
    assert job.problem.question == "1+1"
    assert job.before == (Message("system", "be brief"), Message("user", "hello"), Message("assistant", "hi"))
    assert refused(service, messages[:3]).param == "messages"
    assert refused(service, [{"role": "tool", "content": "x"}, *messages]).param == "messages[0].role"


def test_a_problem_that_the_task_cannot_read_is_refused_by_the_field_at_fault(make_service):
    countdown = make_service(task=TaskSettings(name="countdown-lite"), context_length=5000)
    assert order_of(countdown, "12 7 5 = 24").job.can_check
    assert refused(countdown, "hello").param == "messages"
    assert refused(countdown, "12 7 5 = 24", gold="(a+b)+c").param == "gold"
    assert refused(countdown, "hello", gold="(a+b)+c").param == "messages"
    code = make_service(task=TaskSettings(name="custom", path="x", verifier="code", answer_style="code"))
    assert refused(code, "write a program", gold="print()").param == "gold"
    assert not order_of(code, "write a program").job.can_check


def test_an_unknown_model_is_not_found(make_service):
    error = refused(make_service(), model="gpt-4")
    assert (error.status, error.code, error.param) == (404, "model_not_found", "model")
    assert "cascade-b-a" in str(error)


def test_what_does_not_fit_is_refused_before_anything_is_sampled(make_service):
    service = make_service(context_length=300)
    assert order_of(service, "x" * 80, max_draft_tokens=200, max_tokens=100)
    error = refused(service, "x" * 101, max_draft_tokens=200, max_tokens=1)
    assert (error.code, error.param) == ("context_length_exceeded", "messages")
    assert refused(service, max_tokens=10**6).code == "context_length_exceeded"


def test_a_long_prompt_is_written_off_the_loop_and_a_short_one_on_it(make_service):
    threads = []

    class Noting:
        def draft(self, problem):
            threads.append(threading.current_thread() is threading.main_thread())
            return prompts.draft(problem)

        def challenge(self, problem, summaries):
            return prompts.challenge(problem, summaries)

    prompts = make_service().offer.prompts
    service = make_service(offer={"prompts": Noting()})
    order_of(service, "short")
    order_of(service, "long " * 1000)
    assert threads == [True, False]


class _Slow:
    """Prompts that take their time; `most` is how many were written at once."""

    def __init__(self, prompts):
        self.prompts, self.lock = prompts, threading.Lock()
        self.num_now = self.most = self.num_read = 0
        self.may_go_on = threading.Event()

    def draft(self, problem):
        with self.lock:
            self.num_now += 1
            self.num_read += 1
            self.most = max(self.most, self.num_now)
        self.may_go_on.wait(10)
        with self.lock:
            self.num_now -= 1
        return self.prompts.draft(problem)

    def challenge(self, problem, summaries):
        return self.prompts.challenge(problem, summaries)


def test_of_many_long_texts_two_are_read_at_once_and_those_of_clients_that_left_not_at_all(make_service, client_of):
    slow = _Slow(make_service().offer.prompts)
    service = make_service(offer={"prompts": slow})
    client = client_of(service)

    async def main():
        async def leaves():
            await asyncio.sleep(0.05)

        stays = [asyncio.create_task(client.chat("long " * 1000)) for _ in range(2)]
        await asyncio.sleep(0.01)
        left = await asyncio.gather(*(client.chat("long " * 1000, leaves=leaves) for _ in range(6)))
        assert (await client.get("/health")).status == 200
        assert not any(told.status for told in left)
        slow.may_go_on.set()
        return [(await task).status for task in stays]

    assert asyncio.run(main()) == [200, 200]
    assert (slow.most, slow.num_read) == (2, 2)


def test_the_jobs_prompts_are_written_once(make_service):
    service = make_service()
    job = order_of(service, "1+1").job
    assert job.prompts.draft(job.problem) is job.prompts.draft(job.problem)
    assert job.prompts.draft(job.problem) == service.offer.prompts.draft(job.problem)


def test_a_completion_of_a_single_model_is_bare_text_that_nobody_checks(make_service):
    service = make_service()
    body = read_completion({"prompt": " once ", "model": "base", "max_tokens": 7})
    order = asyncio.run(completion_order(body, service.offer, service.context_check))
    assert order.job.prompts.draft(order.job.problem).text == " once "
    assert not order.job.can_check
    assert order.job.sampling.max_draft_tokens == 7
