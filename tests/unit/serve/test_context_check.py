from __future__ import annotations

from dataclasses import replace

import pytest

from agon.match.asking import Sampling
from agon.records import Problem, Prompt
from agon.serve.context_check import ContextCheck
from agon.serve.errors import RequestError

PROBLEM = Problem(id="p", question="0123456789", gold="", task="t", verifier="exact")


class Prompts:
    """A challenge's prompt has 5 tokens more than a draft's, and 7 if it shows the answer."""

    def __init__(self):
        self.num_challenges = 0

    def draft(self, problem):
        return Prompt((1,) * len(problem.question), problem.question)

    def challenge(self, problem, summaries):
        self.num_challenges += 1
        added = 7 if summaries[0].shows_answer else 5
        return Prompt((1,) * (len(problem.question) + added), problem.question)


def require(make_job, context, protocol="cascade", **caps):
    prompts = Prompts()
    job = replace(make_job(protocol, problem=PROBLEM, sampling=Sampling(**caps)), prompts=prompts)
    ContextCheck(context).require(job, param="messages")
    return prompts


def test_a_draft_has_to_fit(make_job):
    caps = {"max_draft_tokens": 90, "max_challenge_tokens": 1, "max_summary_tokens": 1}
    require(make_job, 100, **caps)
    with pytest.raises(
        RequestError, match=r"the draft needs 10 prompt \+ 90 new = 100 tokens, but the context holds 99"
    ):
        require(make_job, 99, **caps)


def test_a_challenge_has_to_fit_with_the_longest_summary(make_job):
    caps = {"max_draft_tokens": 1, "max_challenge_tokens": 60, "max_summary_tokens": 25}
    # 10 of the problem, 5 around the summary, 25 of it, 60 new.
    require(make_job, 100, **caps)
    with pytest.raises(RequestError, match=r"the challenge needs 40 prompt \+ 60 new = 100") as refused:
        require(make_job, 99, **caps)
    assert (refused.value.status, refused.value.code, refused.value.param) == (
        400,
        "context_length_exceeded",
        "messages",
    )
    with pytest.raises(RequestError, match=r"the challenge needs 42 prompt"):
        require(make_job, 101, protocol="answer-visible", **caps)


def test_a_single_model_needs_no_room_for_a_challenge(make_job):
    caps = {"max_draft_tokens": 90, "max_challenge_tokens": 1000, "max_summary_tokens": 1000}
    assert require(make_job, 100, protocol="single", **caps).num_challenges == 0
    with pytest.raises(RequestError, match="the completion needs"):
        require(make_job, 99, protocol="single", **caps)


def test_what_a_challenge_adds_is_looked_at_once(make_job):
    prompts = Prompts()
    context_check = ContextCheck(1000)
    job = replace(make_job(problem=PROBLEM), prompts=prompts)
    for _ in range(3):
        context_check.require(job, param="messages")
    assert prompts.num_challenges == 1


def test_endpoints_say_by_themselves_what_they_cannot_read(make_job):
    huge = {"max_draft_tokens": 10**6, "max_challenge_tokens": 10**6, "max_summary_tokens": 10**6}
    assert require(make_job, None, **huge).num_challenges == 0
