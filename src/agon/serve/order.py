"""From what a client sent to the job that answers it."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from agon.match.asking import Sampling
from agon.records import Lineup
from agon.serve.asked import AskedProblem, WrittenPrompts, ask_problem, ask_to_continue, said_before
from agon.serve.context_check import ContextCheck
from agon.serve.errors import RequestError
from agon.serve.models import Offer
from agon.serve.records import Job, Message
from agon.serve.schema import Body, ChatBody, CompletionBody

# What is longer is rendered and tokenised in a thread, so that the event loop stays free for others. Units: characters.
_INLINE_SIZE = 4_000
# Two at once: a tokenizer takes some eighty times the room of its text, and a core.
_READERS = ThreadPoolExecutor(max_workers=2, thread_name_prefix="agon-read")
# A client that counts in floating point, as browsers do, gives such a seed back as it got it.
_LARGEST_DRAWN_SEED = 2**31


@dataclass(frozen=True, slots=True)
class Order:
    """A request that can be played: the job, and how its answer is to be told. One that wants text as it grows is answered by a stream."""

    id: str
    created: int
    model: str
    job: Job
    wants_usage: bool
    wants_logprobs: bool


async def chat_order(body: ChatBody, offer: Offer, context_check: ContextCheck) -> Order:
    """Read a chat: its last message, the only one for a trained pair, is the problem.

    Raises:
        RequestError: naming the field that cannot be used.
    """

    def make() -> Order:
        lineup, cap, before = _lineup(body, offer), _final_cap(body), said_before(body.messages, offer)
        asked = ask_problem(body.messages[-1].text, body.gold, offer, param="messages")
        job = _job(body, offer, asked, lineup=lineup, cap=cap, before=before)
        context_check.require(job, param="messages")
        return _order(body, offer, job, kind="chatcmpl", wants_logprobs=body.logprobs)

    return await _off_loop(make, size=len(body.messages[-1].text))


async def completion_order(body: CompletionBody, offer: Offer, context_check: ContextCheck) -> Order:
    """Read a completion: a single model continues its prompt as it stands, every other takes it as the problem.

    Raises:
        RequestError: naming the field that cannot be used.
    """

    def make() -> Order:
        lineup = _lineup(body, offer)
        ask = ask_to_continue if lineup.num_rollouts == 1 else ask_problem
        asked = ask(body.prompt, body.gold, offer, param="prompt")
        job = _job(body, offer, asked, lineup=lineup, cap=body.max_tokens)
        context_check.require(job, param="prompt")
        return _order(body, offer, job, kind="cmpl", wants_logprobs=body.logprobs is not None)

    return await _off_loop(make, size=len(body.prompt))


def _job(
    body: Body, offer: Offer, asked: AskedProblem, *, lineup: Lineup, cap: int | None, before: tuple[Message, ...] = ()
) -> Job:
    """Return the job; `cap` is that of its final stage."""
    sampling = _sampling(body, offer.sampling, lineup=lineup, cap=cap)
    if lineup.stands == "likeliest":
        _require_choice(body, sampling)
    return Job(
        problem=asked.problem,
        can_check=asked.can_check,
        lineup=lineup,
        sampling=sampling,
        prompts=WrittenPrompts(asked.plain, offer.prompts),
        summarizer=offer.summarizer,
        style=offer.style,
        samples=body.n,
        seed=secrets.randbelow(_LARGEST_DRAWN_SEED) if body.seed is None else body.seed,
        stop=tuple(body.stop),
        wants_text=body.stream,
        shows_drafts=body.include_draft,
        before=before,
    )


def _require_choice(body: Body, sampling: Sampling) -> None:
    """Check that the likeliest of several drafts can be told, and that nothing would end it that is not known to be final."""
    if sampling.temperature == 0.0:
        raise RequestError(
            "temperature is 0, where every draft is as likely as any other: send one above 0, or take model drafter",
            param="temperature",
            code="invalid_value",
        )
    if body.stop:
        raise RequestError(
            "stop ends the final text, but which of several drafts that is is known when they have ended: leave it out",
            param="stop",
            code="unsupported_parameter",
        )


def _order(body: Body, offer: Offer, job: Job, *, kind: str, wants_logprobs: bool) -> Order:
    if wants_logprobs and offer.vocabulary is None:
        raise RequestError("logprobs are not known of these endpoints: leave them out", param="logprobs")
    return Order(
        id=f"{kind}-{secrets.token_hex(12)}",
        created=int(time.time()),
        model=body.model or offer.default,
        job=job,
        wants_usage=body.stream_options is not None and body.stream_options.include_usage,
        wants_logprobs=wants_logprobs,
    )


def _lineup(body: Body, offer: Offer) -> Lineup:
    name = body.model or offer.default
    if name not in offer.models:
        raise unknown_model(name, offer)
    lineup = offer.models[name]
    for field in ("max_draft_tokens", "max_summary_tokens"):
        if getattr(body, field) is not None and not lineup.has_challenge:
            raise RequestError(
                f"{field} is for cascades, but model {name} has no challenge: set max_tokens", param=field
            )
    return lineup


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


def _sampling(body: Body, default: Sampling, *, lineup: Lineup, cap: int | None) -> Sampling:
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


async def _off_loop(make: Callable[[], Order], *, size: int) -> Order:
    return make() if size <= _INLINE_SIZE else await asyncio.get_running_loop().run_in_executor(_READERS, make)
