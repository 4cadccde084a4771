from __future__ import annotations

import math
from dataclasses import replace

import pytest

from agon.errors import EngineError
from agon.records import Completion, Request
from agon.rollout.checks import check_completions, check_request

REQUEST = Request((5, 6, 7), "A", 4, seed=0)
COMPLETION = Completion((8, 9, 1), (-0.5, -0.1, 0.0), "x", "stop", "A", 3)


def test_answers_that_fit_pass():
    check_completions([REQUEST] * 2, [COMPLETION] * 2, {"A": 3, "B": 9, None: 0})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"logprobs": (-0.5, -0.1)}, "completion 1 has 3 token ids but 2 logprobs"),
        ({"token_ids": (), "logprobs": ()}, "completion 1 has 0 tokens, but 1 to 4"),
        ({"token_ids": (2,) * 5, "logprobs": (-1.0,) * 5}, "completion 1 has 5 tokens, but 1 to 4"),
        ({"logprobs": (-0.5, math.nan, 0.0)}, "logprob nan at token 1"),
        ({"logprobs": (-0.5, -0.1, -math.inf)}, "logprob -inf at token 2"),
        ({"logprobs": (0.7, -0.1, 0.0)}, "logprob 0.7 at token 0"),
        ({"adapter": "B"}, "sampled from adapter 'B', but 'A' was asked for"),
        ({"adapter_version": 2}, "the engine has version 2 of adapter 'A', the trainer 3"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_in_one_line(change, message):
    with pytest.raises(EngineError, match=message) as caught:
        check_completions([REQUEST] * 2, [COMPLETION, replace(COMPLETION, **change)], {"A": 3})
    assert "\n" not in str(caught.value)


def test_a_missing_answer_is_refused():
    with pytest.raises(EngineError, match="1 completions for 2 requests"):
        check_completions([REQUEST] * 2, [COMPLETION])


def test_versions_that_are_not_known_are_not_compared():
    check_completions([REQUEST], [COMPLETION], {"B": 0})
    check_completions([REQUEST], [COMPLETION])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt_ids": ()}, "empty prompt"),
        ({"max_tokens": 0}, "max_tokens = 0"),
        ({"temperature": -1.0}, "temperature -1.0"),
        ({"temperature": math.nan}, "temperature nan"),
        ({"top_p": 0.0}, "top_p 0.0"),
        ({"top_p": 1.5}, "top_p 1.5"),
        ({"max_tokens": 6}, r"request 2 needs 3 prompt \+ 6 new = 9 tokens, but the context holds 8"),
    ],
)
def test_a_request_no_engine_could_serve_is_refused(change, message):
    with pytest.raises(EngineError, match=message):
        check_request(replace(REQUEST, **change), 8, index=2)


def test_a_request_that_fills_the_context_exactly_is_served():
    check_request(replace(REQUEST, max_tokens=5), 8)
