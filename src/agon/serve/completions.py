"""`POST /v1/completions`: what a job is told as."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agon.serve.logprobs import TokenTexts, completion_logprobs
from agon.serve.order import Order, completion_order
from agon.serve.records import Crossed, Event, MatchEnded, StageBegan, StageEnded, StageGrew
from agon.serve.schema import read_completion
from agon.serve.service import Service
from agon.serve.tally import Choice, Tally, crossed_of, numbers_of


class CompletionWire:
    """Reads completions and answers them."""

    async def order(self, tree: Mapping[str, Any], service: Service) -> Order:
        """Read a request.

        Raises:
            RequestError: it cannot be played.
        """
        return await completion_order(read_completion(tree), service.offer, service.context_check)

    def telling(self, order: Order, service: Service) -> CompletionTelling:
        """Return how its job is to be told."""
        return CompletionTelling(order, service)


class CompletionTelling:
    """Tells of one job. OpenAI's shape has no place for a draft: it stands in our own part alone."""

    def __init__(self, order: Order, service: Service) -> None:
        self._order = order
        self._texts: list[TokenTexts] | None = None
        self._lengths = [0] * order.job.samples
        vocabulary = service.offer.vocabulary
        if order.wants_logprobs and vocabulary is not None:
            self._texts = [TokenTexts(vocabulary) for _ in range(order.job.samples)]

    def answer(self, tally: Tally) -> dict[str, Any]:
        """Return the whole answer."""
        choices: list[dict[str, Any]] = []
        for number, choice in enumerate(tally.choices):
            completion, logprobs = choice.final.ended.completion, self._logprobs(number, choice)
            choices.append(_choice(number, completion.text, finish_reason=completion.stop_reason, logprobs=logprobs))
        told = [tally.details(number) for number in range(len(choices))]
        return {**self._head(), "choices": choices, "usage": tally.usage(), "agon": told}

    def opening(self) -> list[dict[str, Any]]:
        """Return nothing: the first text begins the stream."""
        return []

    def chunks(self, event: Event, tally: Tally) -> list[dict[str, Any]]:
        """Return the chunks that tell of an event."""
        match event:
            case StageGrew(is_final=True):
                return self._grown(event)
            case MatchEnded(sample):
                choice, told = tally.choices[sample], tally.finished(sample)
                reason = choice.final.ended.completion.stop_reason
                return [*self._settled(choice, sample), self._chunk(sample, finish_reason=reason, told=told)]
            case _ if not self._order.job.shows_drafts:
                return []
            case StageGrew(sample, role, text):
                told = {"event": "grew", "stage": event.stage, "role": role, "text": text}
                return [self._chunk(sample, told=told)] if text else []
            case StageBegan(sample, role, adapter, stage):
                told = {"event": "stage_started", "stage": stage, "role": role, "adapter": adapter}
                return [self._chunk(sample, told=told)]
            case Crossed(sample, summaries):
                return [self._chunk(sample, told={"event": "crossed", **crossed_of(summaries)})]
            case StageEnded(sample, role):
                told = {"event": "stage_ended", "stage": event.stage, "role": role, **numbers_of(event)}
                return [self._chunk(sample, told=told)]

    def closing(self, tally: Tally) -> list[dict[str, Any]]:
        """Return the account of tokens, if it was asked for."""
        return [{**self._head(), "choices": [], "usage": tally.usage()}] if self._order.wants_usage else []

    def _grown(self, event: StageGrew) -> list[dict[str, Any]]:
        logprobs = None
        if self._texts is not None:
            texts = self._texts[event.sample].add(event.token_ids)
            logprobs = completion_logprobs(texts, event.logprobs, offset=self._lengths[event.sample])
            self._lengths[event.sample] += sum(map(len, texts))
        elif not event.text:
            return []
        return [self._chunk(event.sample, event.text, logprobs=logprobs)]

    def _settled(self, choice: Choice, sample: int) -> list[dict[str, Any]]:
        """Return the final text in one piece where only the end of the match tells which it is."""
        if self._order.job.is_final(choice.final.role):
            return []
        return [self._chunk(sample, choice.final.ended.completion.text, logprobs=self._logprobs(sample, choice))]

    def _logprobs(self, number: int, choice: Choice) -> dict[str, Any] | None:
        """Return those of the whole final text."""
        if self._texts is None:
            return None
        completion = choice.final.ended.completion
        texts = self._texts[number].all_of(completion.token_ids, completion.text)
        return completion_logprobs(texts, completion.logprobs, offset=0)

    def _chunk(
        self,
        number: int,
        text: str = "",
        *,
        finish_reason: str | None = None,
        logprobs: Mapping[str, Any] | None = None,
        told: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        choice = _choice(number, text, finish_reason=finish_reason, logprobs=logprobs)
        usage = {"usage": None} if self._order.wants_usage else {}
        ours = {} if told is None else {"agon": {"choice": number, **told}}
        return {**self._head(), "choices": [choice], **usage, **ours}

    def _head(self) -> dict[str, Any]:
        order = self._order
        return {"id": order.id, "object": "text_completion", "created": order.created, "model": order.model}


def _choice(number: int, text: str, *, finish_reason: str | None, logprobs: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"index": number, "text": text, "logprobs": logprobs, "finish_reason": finish_reason}
