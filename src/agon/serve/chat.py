"""`POST /v1/chat/completions`: what a job is told as."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agon.serve.logprobs import TokenTexts, chat_logprobs
from agon.serve.order import Order, chat_order
from agon.serve.records import Crossed, Event, MatchEnded, StageBegan, StageEnded, StageGrew
from agon.serve.schema import read_chat
from agon.serve.service import Service
from agon.serve.tally import Choice, Tally, crossed_of, numbers_of

_HEADING = "What the challenger read of this draft:"


class ChatWire:
    """Reads chats and answers them."""

    async def order(self, tree: Mapping[str, Any], service: Service) -> Order:
        """Read a request.

        Raises:
            RequestError: it cannot be played.
        """
        return await chat_order(read_chat(tree), service.offer, service.context_check)

    def telling(self, order: Order, service: Service) -> ChatTelling:
        """Return how its job is to be told."""
        return ChatTelling(order, service)


class ChatTelling:
    """Tells of one job.

    The draft stands where clients look for what a model thought: `reasoning_content`, and `reasoning` for those that know it by its newer
    name.
    """

    def __init__(self, order: Order, service: Service) -> None:
        self._order = order
        self._texts: list[TokenTexts] | None = None
        vocabulary = service.offer.vocabulary
        if order.wants_logprobs and vocabulary is not None:
            self._texts = [TokenTexts(vocabulary) for _ in range(order.job.samples)]

    def answer(self, tally: Tally) -> dict[str, Any]:
        """Return the whole answer."""
        choices = [self._choice(number, choice) for number, choice in enumerate(tally.choices)]
        return {
            **self._head("chat.completion"),
            "choices": choices,
            "usage": tally.usage(),
            "agon": [tally.details(number) for number in range(len(choices))],
        }

    def opening(self) -> list[dict[str, Any]]:
        """Return the chunks that say who speaks."""
        delta = {"role": "assistant", "content": ""}
        return [self._chunk(choice, delta) for choice in range(self._order.job.samples)]

    def chunks(self, event: Event, tally: Tally) -> list[dict[str, Any]]:
        """Return the chunks that tell of an event."""
        match event:
            case StageGrew():
                return self._grown(event)
            case MatchEnded(sample):
                return [*self._settled(tally.choices[sample], sample), self._finished(sample, tally)]
            case _ if not self._order.job.shows_drafts:
                return []
            case StageBegan(sample, role, adapter, stage):
                return [self._stage(sample, "stage_started", {"stage": stage, "role": role, "adapter": adapter})]
            case Crossed(sample, summaries):
                return [self._stage(sample, "crossed", crossed_of(summaries))]
            case StageEnded(sample, role):
                return [self._stage(sample, "stage_ended", {"stage": event.stage, "role": role, **numbers_of(event)})]

    def closing(self, tally: Tally) -> list[dict[str, Any]]:
        """Return the account of tokens, if it was asked for."""
        if not self._order.wants_usage:
            return []
        return [{**self._head("chat.completion.chunk"), "choices": [], "usage": tally.usage()}]

    def _grown(self, event: StageGrew) -> list[dict[str, Any]]:
        if not event.is_final:
            return [self._drafted(event)] if self._order.job.shows_drafts and event.text else []
        logprobs = None
        if self._texts is not None:
            logprobs = chat_logprobs(self._texts[event.sample].add(event.token_ids), event.logprobs)
        elif not event.text:
            return []
        return [self._chunk(event.sample, {"content": event.text}, logprobs=logprobs)]

    def _drafted(self, event: StageGrew) -> dict[str, Any]:
        # Several at once would be mixed up where there is room for one text.
        if len(self._order.job.lineup.drafters) > 1:
            return self._stage(event.sample, "grew", {"stage": event.stage, "role": event.role, "text": event.text})
        return self._chunk(event.sample, _thought(event.text))

    def _settled(self, choice: Choice, sample: int) -> list[dict[str, Any]]:
        """Return the final text in one piece, and before it the other drafts, where only the end of the match tells which is which."""
        if self._order.job.is_final(choice.final.role):
            return []
        final = {"content": choice.final.ended.completion.text}
        chunks = [self._chunk(sample, final, logprobs=self._logprobs(sample, choice))]
        if self._order.job.shows_drafts and choice.draft_text:
            chunks.insert(0, self._chunk(sample, _thought(choice.draft_text)))
        return chunks

    def _finished(self, sample: int, tally: Tally) -> dict[str, Any]:
        reason = tally.choices[sample].final.ended.completion.stop_reason
        return {**self._chunk(sample, {}, finish_reason=reason), "agon": {"choice": sample, **tally.finished(sample)}}

    def _stage(self, sample: int, event: str, told: Mapping[str, Any]) -> dict[str, Any]:
        return {**self._chunk(sample, {}), "agon": {"choice": sample, "event": event, **told}}

    def _choice(self, number: int, choice: Choice) -> dict[str, Any]:
        completion = choice.final.ended.completion
        message: dict[str, Any] = {"role": "assistant", "content": completion.text, "refusal": None}
        if self._order.job.shows_drafts and len(choice.stages) > 1:
            crossed = "" if choice.summary is None else f"{_HEADING}\n{choice.summary}"
            message |= _thought("\n\n".join(part for part in (choice.draft_text, crossed) if part))
        return {
            "index": number,
            "message": message,
            "logprobs": self._logprobs(number, choice),
            "finish_reason": completion.stop_reason,
        }

    def _logprobs(self, number: int, choice: Choice) -> dict[str, Any] | None:
        """Return those of the whole final text."""
        if self._texts is None:
            return None
        completion = choice.final.ended.completion
        return chat_logprobs(self._texts[number].all_of(completion.token_ids, completion.text), completion.logprobs)

    def _chunk(
        self,
        choice: int,
        delta: Mapping[str, Any],
        *,
        finish_reason: str | None = None,
        logprobs: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        told = {"index": choice, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}
        usage = {"usage": None} if self._order.wants_usage else {}
        return {**self._head("chat.completion.chunk"), "choices": [told], **usage}

    def _head(self, kind: str) -> dict[str, Any]:
        order = self._order
        return {"id": order.id, "object": kind, "created": order.created, "model": order.model}


def _thought(text: str) -> dict[str, str]:
    return {"reasoning_content": text, "reasoning": text}
