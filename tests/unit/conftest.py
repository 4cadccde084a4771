"""A match without a model: a scripted engine, bare prompts, a checker that compares texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from agon.answers import extract_answer
from agon.match.session import Session
from agon.records import Prompt, Request, Summary, Verdict
from agon.rollout.scripted import ScriptedEngine


class CharTokenizer:
    """One token a character: what was asked can be read back from ids."""

    eos_token_id = 0

    def __call__(self, text: str, add_special_tokens: bool = True, return_offsets_mapping: bool = False):
        return {"input_ids": self.encode(text), "offset_mapping": [(i, i + 1) for i in range(len(text))]}

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [ord(character) for character in text]

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        return "".join(chr(number) for number in token_ids if number)


class PlainPrompts:
    """The question, and after it what each rival left, as bare text."""

    def draft(self, problem):
        return self._prompt(problem.question)

    def challenge(self, problem, summaries: Sequence[Summary]):
        return self._prompt(problem.question + "".join(f"|{summary.text}" for summary in summaries))

    def _prompt(self, text: str):
        return Prompt(token_ids=tuple(ord(character) for character in text), text=text)


class GoldChecker:
    """Right if the answer is the gold's text; `broken` questions are ones whose checker fails."""

    def __init__(self, broken: Sequence[str] = ()):
        self.broken = broken
        self.seen = []

    def verify(self, pairs, style):
        self.seen.append([(problem.question, completion.text) for problem, completion in pairs])
        return [self._one(problem, completion, style) for problem, completion in pairs]

    def _one(self, problem, completion, style):
        if problem.question in self.broken:
            return Verdict("error", 0.0, "checker broke")
        if completion.is_truncated:
            return Verdict("truncated", 0.0, "cap")
        answer = extract_answer(completion.text, style)
        if answer is None:
            return Verdict("unparsed", 0.0, "no answer")
        return Verdict("correct" if answer == problem.gold else "wrong", float(answer == problem.gold), answer=answer)

    def check_error_share(self):
        pass

    def close(self):
        pass


def _make(script: Callable[[str, Request], str], *, broken: Sequence[str] = (), faults=None, logprob=None):
    tokenizer = CharTokenizer()
    engine = ScriptedEngine(script, tokenizer, faults=faults)
    if logprob is not None:
        engine = LikelihoodScript(engine, logprob)
    checker = GoldChecker(broken)
    return Session(engine, PlainPrompts(), checker, "tags", tokenizer), engine


@pytest.fixture
def make_session() -> Callable[..., tuple[Session, ScriptedEngine]]:
    """Return a function (script, broken=()) -> (session, engine) whose engine answers from the script.

    `logprob(request)` is that of each token of the answer.
    """

    return _make


@pytest.fixture(scope="session")
def make_session_once() -> Callable[..., tuple[Session, ScriptedEngine]]:
    """The same for a property test, which may not take a fixture that is made anew for each test."""
    return _make


@pytest.fixture
def growing_script() -> type[GrowingScript]:
    return GrowingScript


class LikelihoodScript:
    """A scripted engine that says of each answer how likely it was."""

    def __init__(self, inner: ScriptedEngine, logprob: Callable[[Request], float]):
        self.inner = inner
        self.logprob = logprob
        self.requests = inner.requests
        self.context_length = inner.context_length

    def generate(self, requests, on_finish=None):
        done = []
        for index, request in enumerate(requests):
            (completion,) = self.inner.generate([request])
            done.append(replace(completion, logprobs=(self.logprob(request),) * completion.num_tokens))
            if on_finish is not None:
                on_finish(index, done[-1])
        return done

    def close(self):
        self.inner.close()


class GrowingScript:
    """A scripted engine whose batches grow, and whose requests end in an order of its own."""

    can_grow = True

    def __init__(self, inner):
        self.inner = inner
        self.context_length = inner.context_length
        self.asked_adapters = None

    def generate(self, requests, on_finish=None):
        return self.inner.generate(requests, on_finish)

    def grow(self, requests, grow, *, adapters):
        self.asked_adapters = set(adapters)
        everything, done, waiting = list(requests), {}, list(range(len(requests)))
        while waiting:
            index = waiting.pop(len(waiting) // 2)
            (done[index],) = self.inner.generate([everything[index]])
            added = list(grow(index, done[index]))
            waiting += range(len(everything), len(everything) + len(added))
            everything += added
        return [done[index] for index in range(len(everything))]

    def close(self):
        self.inner.close()
