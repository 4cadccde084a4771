"""What a client asks about: a problem of the run's task or bare text, and the prompt with which it is drafted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from agon.errors import AgonError, DataError
from agon.match.borders import Prompter
from agon.records import Problem, Prompt, Summary
from agon.serve.errors import RequestError
from agon.serve.models import Offer, Vocabulary
from agon.serve.records import Message
from agon.serve.schema import ChatMessage
from agon.tasks.rows import content_id
from agon.tasks.typed import Typed, typed_problem


class AskedProblem(NamedTuple):
    """A problem, whether a program can check its answer, and the plain prompt."""

    problem: Problem
    can_check: bool
    plain: Prompt


class WrittenPrompts:
    """The prompts of one job, the plain one written already."""

    def __init__(self, plain: Prompt, prompts: Prompter) -> None:
        self._plain = plain
        self._prompts = prompts

    def draft(self, problem: Problem) -> Prompt:
        """Return the plain prompt."""
        return self._plain

    def challenge(self, problem: Problem, summaries: Sequence[Summary]) -> Prompt:
        """Return the prompt that shows what the rivals left."""
        return self._prompts.challenge(problem, summaries)


def ask_problem(prompt: str | Sequence[int], gold: str | None, offer: Offer, *, param: str) -> AskedProblem:
    """Ask for a solution of the problem in a text. `param` is the field that it came in.

    Raises:
        RequestError: it is no problem of this task, or a right answer is given that no program can use.
    """
    if not isinstance(prompt, str):
        raise RequestError(
            f"{param} is a list of token ids, but this model reads a problem: send its text", param=param
        )
    typed = _typed(prompt, gold, offer, param=param)
    return AskedProblem(typed.problem, typed.can_check, offer.prompts.draft(typed.problem))


def ask_to_continue(prompt: str | Sequence[int], gold: str | None, offer: Offer, *, param: str) -> AskedProblem:
    """Ask for the continuation of a text, or of token ids, in no template.

    Raises:
        RequestError: there is nothing to continue, or nobody who can.
    """
    vocabulary = offer.vocabulary
    if vocabulary is None:
        raise RequestError(
            "these endpoints are asked by chat: send the prompt to /v1/chat/completions, or take model cascade",
            param="model",
        )
    if gold is not None:
        raise RequestError("gold is for problems, but a single model continues bare text: leave it out", param="gold")
    if isinstance(prompt, str):
        plain = Prompt(tuple(vocabulary.encode(prompt)), prompt)
    else:
        _require_known(prompt, vocabulary, param)
        plain = Prompt(tuple(prompt), vocabulary.decode(prompt))
    if not plain.token_ids:
        raise RequestError(f"{param} is empty: there is nothing to continue", param=param)
    problem = Problem(id=content_id(plain.text), question=plain.text, gold="", task=offer.task.name, verifier="exact")
    return AskedProblem(problem, can_check=False, plain=plain)


def said_before(messages: Sequence[ChatMessage], offer: Offer) -> tuple[Message, ...]:
    """Check who speaks, and return what was said before the problem.

    Raises:
        RequestError: a conversation with a pair that knows none, or one that does not end with a problem.
    """
    if not offer.takes_conversations:
        if len(messages) != 1 or messages[0].role != "user":
            raise RequestError(
                "messages are more than one message of the user: this pair was trained on single problems, so send the problem "
                "alone, without a system message and without earlier turns",
                param="messages",
            )
        return ()
    said: list[Message] = []
    for number, message in enumerate(messages):
        if message.role in ("tool", "function"):
            raise RequestError("there are no tools here: leave their messages out", param=f"messages[{number}].role")
        # OpenAI's newer name of the same.
        said.append(Message("system" if message.role == "developer" else message.role, message.text))
    if said[-1].role != "user":
        raise RequestError(
            "messages do not end with one of the user, which would be the problem: end with it", param="messages"
        )
    return tuple(said[:-1])


def _typed(text: str, gold: str | None, offer: Offer, *, param: str) -> Typed:
    try:
        return typed_problem(offer.task, text, gold)
    except DataError as error:
        at_fault = "gold" if gold is not None and _is_problem(text, offer) else param
        raise RequestError(str(error), param=at_fault) from None


def _is_problem(text: str, offer: Offer) -> bool:
    try:
        typed_problem(offer.task, text, None)
    except AgonError:
        return False
    return True


def _require_known(tokens: Sequence[int], vocabulary: Vocabulary, param: str) -> None:
    for token in tokens:
        if not 0 <= token < vocabulary.size:
            raise RequestError(
                f"{param} holds token {str(token)[:20]}: this model knows 0 to {vocabulary.size - 1}", param=param
            )
