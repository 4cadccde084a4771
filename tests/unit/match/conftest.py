from __future__ import annotations

from collections.abc import Callable, Sequence

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


@pytest.fixture
def make_session() -> Callable[..., tuple[Session, ScriptedEngine]]:
    """Return a function (script, broken=()) -> (session, engine) whose engine answers from the script."""

    def make(script: Callable[[str, Request], str], *, broken: Sequence[str] = (), faults=None):
        tokenizer = CharTokenizer()
        engine = ScriptedEngine(script, tokenizer, faults=faults)
        checker = GoldChecker(broken)
        return Session(engine, PlainPrompts(), checker, "tags", tokenizer), engine

    return make
