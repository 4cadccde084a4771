"""From what a client sent to the job that answers it."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from agon.errors import AgonError, DataError
from agon.match.asking import Sampling
from agon.match.borders import Prompter
from agon.records import Lineup, Problem, Prompt, Summary
from agon.serve.errors import RequestError
from agon.serve.models import Offer, Vocabulary
from agon.serve.records import Job, Message
from agon.serve.room import Room
from agon.serve.schema import Body, ChatBody, ChatMessage, CompletionBody
from agon.tasks.rows import content_id
from agon.tasks.typed import Typed, typed_problem

# What is longer is rendered and tokenised in a thread, so that the event loop stays free for others.
_INLINE_CHARACTERS = 4_000
# A client that counts in floating point, as browsers do, gives such a seed back as it got it.
_LARGEST_DRAWN_SEED = 2**31

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Order:
    """A request that can be played: the job, and how its answer is to be told."""

    id: str
    created: int
    model: str
    job: Job
    is_streamed: bool
    wants_usage: bool
    wants_draft: bool
    wants_logprobs: bool


class _Ready:
    """The prompts of one job, its plain one written already."""

    def __init__(self, plain: Prompt, prompts: Prompter) -> None:
        self._plain = plain
        self._prompts = prompts

    def draft(self, problem: Problem) -> Prompt:
        return self._plain

    def challenge(self, problem: Problem, summaries: Sequence[Summary]) -> Prompt:
        return self._prompts.challenge(problem, summaries)


async def chat_order(body: ChatBody, offer: Offer, room: Room) -> Order:
    """Read a chat: its last message, the only one for a trained pair, is the problem.

    Raises:
        RequestError: naming the field that cannot be used.
    """
    lineup = _lineup(body, offer)
    cap = _final_cap(body)
    before = _before(body.messages, offer)
    _require_logprobs(body.logprobs, offer)
    typed, plain = await _off_loop(
        body.messages[-1].text, lambda text: _typed_and_asked(text, body.gold, offer, "messages")
    )
    order = _order(body, offer, lineup, typed, _Ready(plain, offer.prompts), cap=cap, wants_logprobs=body.logprobs)
    room.require(typed.problem, plain, order.job, param="messages")
    return replace(order, id=f"chatcmpl-{order.id}", job=replace(order.job, before=before))


async def completion_order(body: CompletionBody, offer: Offer, room: Room) -> Order:
    """Read a completion: a cascade takes its prompt as the problem, a single model continues it as it stands.

    Raises:
        RequestError: naming the field that cannot be used.
    """
    lineup = _lineup(body, offer)
    _require_logprobs(body.logprobs is not None, offer)
    if lineup.has_challenge:
        if not isinstance(body.prompt, str):
            raise RequestError(
                "prompt is a list of token ids, but a cascade reads a problem: send its text", param="prompt"
            )
        typed, plain = await _off_loop(body.prompt, lambda text: _typed_and_asked(text, body.gold, offer, "prompt"))
    else:
        typed, plain = await _raw(body, offer)
    ready = _Ready(plain, offer.prompts)
    order = _order(body, offer, lineup, typed, ready, cap=body.max_tokens, wants_logprobs=body.logprobs is not None)
    room.require(typed.problem, plain, order.job, param="prompt")
    return replace(order, id=f"cmpl-{order.id}")


def _order(
    body: Body, offer: Offer, lineup: Lineup, typed: Typed, prompts: Prompter, *, cap: int | None, wants_logprobs: bool
) -> Order:
    seed = secrets.randbelow(_LARGEST_DRAWN_SEED) if body.seed is None else body.seed
    job = Job(
        problem=typed.problem,
        can_check=typed.can_check,
        lineup=lineup,
        sampling=_sampling(body, offer.sampling, lineup, cap),
        prompts=prompts,
        summarizer=offer.summarizer,
        style=offer.style,
        samples=body.n,
        seed=seed,
        stop=tuple(body.stop),
        wants_text=body.stream,
    )
    return Order(
        id=secrets.token_hex(12),
        created=int(time.time()),
        model=body.model or offer.default,
        job=job,
        is_streamed=body.stream,
        wants_usage=body.stream_options is not None and body.stream_options.include_usage,
        wants_draft=body.include_draft,
        wants_logprobs=wants_logprobs,
    )


def _lineup(body: Body, offer: Offer) -> Lineup:
    name = body.model or offer.default
    if name not in offer.models:
        raise unknown_model(name, offer)
    lineup = offer.models[name]
    for field in ("max_draft_tokens", "max_summary_tokens"):
        if getattr(body, field) is not None and not lineup.has_challenge:
            raise RequestError(f"{field} is for cascades, but model {name} has one stage: set max_tokens", param=field)
    return lineup


def _require_logprobs(wanted: bool, offer: Offer) -> None:
    if wanted and offer.vocabulary is None:
        raise RequestError("logprobs are not known of these endpoints: leave them out", param="logprobs")


def unknown_model(name: str, offer: Offer) -> RequestError:
    """Say that a model is not offered, and which are."""
    return RequestError(
        f"model {name[:60]!r} is not served here; there are {', '.join(offer.models)}",
        status=404,
        param="model",
        code="model_not_found",
    )


def _final_cap(body: ChatBody) -> int | None:
    if body.max_tokens is None or body.max_completion_tokens is None:
        return body.max_tokens or body.max_completion_tokens
    if body.max_tokens != body.max_completion_tokens:
        raise RequestError(
            f"max_completion_tokens is {body.max_completion_tokens}, but max_tokens {body.max_tokens}: they mean the same, "
            "send one of them",
            param="max_completion_tokens",
        )
    return body.max_tokens


def _sampling(body: Body, default: Sampling, lineup: Lineup, cap: int | None) -> Sampling:
    draft, challenge = body.max_draft_tokens, cap
    if not lineup.has_challenge:
        # The only stage is the final one.
        draft, challenge = cap, None
    return Sampling(
        max_draft_tokens=draft or default.max_draft_tokens,
        max_challenge_tokens=challenge or default.max_challenge_tokens,
        max_summary_tokens=body.max_summary_tokens or default.max_summary_tokens,
        temperature=default.temperature if body.temperature is None else body.temperature,
        top_p=default.top_p if body.top_p is None else body.top_p,
    )


def _before(messages: Sequence[ChatMessage], offer: Offer) -> tuple[Message, ...]:
    """Check who speaks, and return what was said before the problem."""
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
        role = "system" if message.role == "developer" else message.role
        said.append(Message(role, message.text))
    if said[-1].role != "user":
        raise RequestError(
            "messages do not end with one of the user, which would be the problem: end with it", param="messages"
        )
    return tuple(said[:-1])


def _typed_and_asked(text: str, gold: str | None, offer: Offer, param: str) -> tuple[Typed, Prompt]:
    typed = _typed(text, gold, offer, param)
    if gold is not None and typed.problem.gold != gold:
        raise RequestError("gold is not needed: a program checks the answers to these problems alone", param="gold")
    return typed, offer.prompts.draft(typed.problem)


def _typed(text: str, gold: str | None, offer: Offer, param: str) -> Typed:
    try:
        return typed_problem(offer.task, text, gold)
    except DataError as error:
        raise RequestError(
            str(error), param="gold" if gold is not None and _is_problem(text, offer) else param
        ) from None


def _is_problem(text: str, offer: Offer) -> bool:
    try:
        typed_problem(offer.task, text, None)
    except AgonError:
        return False
    return True


async def _raw(body: CompletionBody, offer: Offer) -> tuple[Typed, Prompt]:
    vocabulary = offer.vocabulary
    if vocabulary is None:
        raise RequestError(
            "these endpoints are asked by chat: send the prompt to /v1/chat/completions, or take model cascade",
            param="model",
        )
    if body.gold is not None:
        raise RequestError(
            "gold is for problems, but a single model continues bare text here: leave it out", param="gold"
        )
    prompt = body.prompt
    if isinstance(prompt, str):
        plain = await _off_loop(prompt, lambda text: Prompt(tuple(vocabulary.encode(text)), text))
    else:
        _require_known(prompt, vocabulary)
        plain = Prompt(tuple(prompt), vocabulary.decode(prompt))
    if not plain.token_ids:
        raise RequestError("prompt is empty: there is nothing to continue", param="prompt")
    problem = Problem(id=content_id(plain.text), question=plain.text, gold="", task=offer.task.name, verifier="exact")
    return Typed(problem, can_check=False), plain


def _require_known(tokens: Sequence[int], vocabulary: Vocabulary) -> None:
    for token in tokens:
        if not 0 <= token < vocabulary.size:
            raise RequestError(
                f"prompt holds token {token}: this model knows 0 to {vocabulary.size - 1}", param="prompt"
            )


async def _off_loop(text: str, make: Callable[[str], Made]) -> Made:
    return make(text) if len(text) <= _INLINE_CHARACTERS else await asyncio.to_thread(make, text)
