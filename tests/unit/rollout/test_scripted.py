from __future__ import annotations

import time

import pytest

from agon.errors import EngineError
from agon.records import Completion, Request
from agon.rollout.checks import check_completions
from agon.rollout.engine import Engine
from agon.rollout.scripted import ScriptedEngine


class Letters:
    """One token a character; 0 ends."""

    eos_token_id = 0

    def encode(self, text, add_special_tokens=True):
        assert not add_special_tokens
        return [ord(letter) for letter in text]

    def decode(self, token_ids):
        return "".join(chr(token) for token in token_ids if token)


def ask(text: str, *, adapter: str | None = "A", max_tokens: int = 20, seed: int = 0) -> Request:
    return Request(tuple(ord(letter) for letter in text), adapter, max_tokens, seed)


def test_a_table_answers_by_prompt_and_gives_several_texts_in_turn():
    engine: Engine = ScriptedEngine({"p": "yes", "q": ["one", "two"]}, Letters(), versions={"A": 7})
    requests = [ask("q"), ask("p"), ask("q"), ask("q")]
    completions = engine.generate(requests)
    assert [completion.text for completion in completions] == ["one", "yes", "two", "one"]
    assert completions[1] == Completion((*map(ord, "yes"), 0), (-0.5,) * 4, "yes", "stop", "A", 7)
    check_completions(requests, completions, {"A": 7})
    assert engine.generate([ask("q")])[0].text == "two"


def test_a_function_answers_from_prompt_and_request():
    engine = ScriptedEngine(lambda prompt, request: f"{prompt}{request.adapter}{request.seed}", Letters())
    assert [c.text for c in engine.generate([ask("p", seed=3), ask("q", adapter=None)])] == ["pA3", "qNone0"]


def test_a_text_longer_than_the_cap_is_cut_and_truncated():
    completion = ScriptedEngine({"p": "abcdef"}, Letters()).generate([ask("p", max_tokens=3)])[0]
    assert (completion.text, completion.num_tokens, completion.is_truncated) == ("abc", 3, True)
    # Six letters and the end token need seven.
    assert ScriptedEngine({"p": "abcdef"}, Letters()).generate([ask("p", max_tokens=6)])[0].is_truncated
    assert not ScriptedEngine({"p": "abcdef"}, Letters()).generate([ask("p", max_tokens=7)])[0].is_truncated


def test_what_was_asked_is_kept_and_each_answer_is_announced():
    engine = ScriptedEngine({"p": "x"}, Letters())
    seen = []
    engine.generate(
        [ask("p"), ask("p", adapter="B")], lambda index, completion: seen.append((index, completion.adapter))
    )
    assert seen == [(0, "A"), (1, "B")]
    assert [request.adapter for request in engine.requests] == ["A", "B"]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("missing_logprob", "2 token ids but 1 logprobs"),
        ("nan_logprob", "logprob nan"),
        ("wrong_adapter", "from adapter 'not-A'"),
        ("old_version", "version 4 of adapter 'A', the trainer 5"),
    ],
)
def test_a_fault_breaks_one_answer_and_the_checks_find_it(fault, message):
    engine = ScriptedEngine({"p": "x"}, Letters(), versions={"A": 5}, faults={1: fault})
    requests = [ask("p")] * 2
    with pytest.raises(EngineError, match=f"completion 1 .*{message}|{message}"):
        check_completions(requests, engine.generate(requests), {"A": 5})
    check_completions(requests, engine.generate(requests), {"A": 5})


def test_a_request_that_never_is_answered_ends_at_the_deadline():
    engine = ScriptedEngine({"p": "x"}, Letters(), deadline_s=0.05, faults={1: "never_answers"})
    start = time.monotonic()
    with pytest.raises(EngineError, match=r"request 1 had no answer after 0\.05 s"):
        engine.generate([ask("p")] * 3)
    assert 0.04 < time.monotonic() - start < 5


def test_a_prompt_outside_the_table_and_one_outside_the_context_are_refused():
    engine = ScriptedEngine({"p": "x"}, Letters(), context_length=10)
    with pytest.raises(EngineError, match="no answer to the prompt 'q'"):
        engine.generate([ask("q", max_tokens=5)])
    with pytest.raises(EngineError, match=r"1 prompt \+ 10 new"):
        engine.generate([ask("p", max_tokens=10)])


def test_answers_can_take_their_time():
    engine = ScriptedEngine({"p": "x"}, Letters(), delay_s=0.02)
    start = time.monotonic()
    engine.generate([ask("p")] * 3)
    assert time.monotonic() - start >= 0.06
