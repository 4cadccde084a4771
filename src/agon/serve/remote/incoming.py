"""What an endpoint streams, read as it comes: events, their JSON, the text they add up to."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from agon.answers import THINK_CLOSE, THINK_OPEN
from agon.records import StopReason
from agon.serve.remote.refusals import Unusable, reason_in

MAX_EVENT_BYTES = 1024 * 1024
MAX_TEXT_CHARS = 8 * 1024 * 1024

_DONE = "[DONE]"
_STOP_REASONS: Mapping[str, StopReason] = {
    **dict.fromkeys(("stop", "eos", "eos_token", "stop_sequence", "end_turn"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_length"), "length"),
}
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_HIGH_SURROGATES = ("\ud800", "\udbff")


class SseEvent(NamedTuple):
    """One server-sent event: its name, if it has one, and its data."""

    name: str
    data: str


class SseReader:
    """Turns bytes, cut wherever the network cut them, into events. Comments and fields of no use here are passed over."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._seen = 0
        self._name = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, data: bytes) -> list[SseEvent]:
        """Take more bytes and return the events that they complete.

        Raises:
            Unusable: an event that is too long, or bytes that are no UTF-8.
        """
        self._buffer += data
        events: list[SseEvent] = []
        start = 0
        # Searched from where the last search ended: a long line in small pieces would be searched again with each.
        while (end := self._buffer.find(b"\n", max(start, self._seen))) >= 0:
            self._take_line(bytes(self._buffer[start:end]), events)
            start = end + 1
        del self._buffer[:start]
        self._seen = len(self._buffer)
        self._limit(self._seen)
        return events

    def flush(self) -> list[SseEvent]:
        """Return the event that the end of the stream left without its empty line."""
        events: list[SseEvent] = []
        self._take_line(bytes(self._buffer), events)
        self._take_line(b"", events)
        self._buffer.clear()
        return events

    def _take_line(self, line: bytes, events: list[SseEvent]) -> None:
        try:
            text = line.decode("utf-8").removesuffix("\r").removeprefix("\ufeff")
        except UnicodeDecodeError:
            raise Unusable("sent bytes that are no UTF-8") from None
        if not text:
            if self._data:
                events.append(SseEvent(self._name, "\n".join(self._data)))
            self._name, self._data, self._size = "", [], 0
            return
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
            self._size += len(line)
            self._limit(self._size)
        elif name == "event":
            self._name = value

    def _limit(self, size: int) -> None:
        if size > MAX_EVENT_BYTES:
            raise Unusable(f"sent an event of more than {MAX_EVENT_BYTES} bytes")


class Usage(NamedTuple):
    """Tokens as the endpoint counted them."""

    num_prompt_tokens: int
    num_completion_tokens: int


class Incoming:
    """One completion as its events come in. `is_done` says that nothing more is to come, `usage` what the endpoint counted, if it did.

    The reasoning that an endpoint tells apart from the content stands before it, between <think> and </think>, as models without such an
    endpoint write it: what is shown of a draft is the text after it.
    """

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.is_done = False
        self._stop_reason: StopReason | None = None
        self._parts: list[str] = []
        self._num_chars = 0
        self._is_reasoning = False
        self._half = ""

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._parts)

    def take(self, event: SseEvent) -> str:
        """Take one event and return the text that it added.

        Raises:
            Unusable: it is an error, or nothing that a completion is made of.
        """
        if event.data.strip() == _DONE:
            self.is_done = True
            return ""
        chunk = _mapping_in(event.data)
        if event.name == "error" or chunk.get("error"):
            raise Unusable(f"broke off with an error: {reason_in(event.data) or 'it says no more'}")
        self.usage = _usage(chunk.get("usage")) or self.usage
        # A chunk of usage has no choices, and some endpoints send other chunks without.
        choices = chunk.get("choices") or []
        if not isinstance(choices, list):
            raise Unusable("sent choices that are no list")
        return self._add("".join(self._choice(choice) for choice in cast("list[Any]", choices)))

    def finish(self) -> tuple[str, StopReason]:
        """Return what was still held back, and why the completion ended.

        Raises:
            Unusable: it was cut off.
        """
        if self._stop_reason is None:
            raise Unusable("ended its stream before the completion was finished")
        rest, self._half = self._half and "\ufffd", ""
        return self._add(rest), self._stop_reason

    def _choice(self, choice: Any) -> str:
        if not isinstance(choice, Mapping):
            raise Unusable("sent a choice that is no object")
        fields = cast("Mapping[str, Any]", choice)
        delta: Any = fields.get("delta") or {}
        if fields.get("index", 0) != 0 or not isinstance(delta, Mapping):
            raise Unusable("sent a choice that was not asked for, or without a delta")
        reason = fields.get("finish_reason")
        if reason is not None:
            self._stop_reason = _stop_reason(reason)
        said = cast("Mapping[str, Any]", delta)
        return self._spoken(_text(said, "reasoning_content") or _text(said, "reasoning"), _text(said, "content"))

    def _spoken(self, reasoning: str, content: str) -> str:
        parts: list[str] = []
        if reasoning:
            parts += [reasoning] if self._is_reasoning else [THINK_OPEN, reasoning]
            self._is_reasoning = True
        if content:
            parts += [THINK_CLOSE, content] if self._is_reasoning else [content]
            self._is_reasoning = False
        return "".join(parts)

    def _add(self, text: str) -> str:
        text = self._mended(text)
        self._num_chars += len(text)
        if self._num_chars > MAX_TEXT_CHARS:
            raise Unusable(f"sent a completion of more than {MAX_TEXT_CHARS} characters")
        if text:
            self._parts.append(text)
        return text

    def _mended(self, text: str) -> str:
        """Join the halves of characters that an endpoint cut in two, and hold back a half at the end."""
        text, self._half = self._half + text, ""
        if not _SURROGATE.search(text):
            return text
        if _HIGH_SURROGATES[0] <= text[-1] <= _HIGH_SURROGATES[1]:
            text, self._half = text[:-1], text[-1]
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _mapping_in(data: str) -> Mapping[str, Any]:
    try:
        chunk = json.loads(data)
    except (ValueError, RecursionError):
        raise Unusable("sent an event that is no JSON") from None
    if not isinstance(chunk, dict):
        raise Unusable("sent an event that is no JSON object")
    return cast("dict[str, Any]", chunk)


def _text(delta: Mapping[str, Any], name: str) -> str:
    value = delta.get(name)
    if value is not None and not isinstance(value, str):
        raise Unusable(f"sent {name} that is no text")
    return value or ""


def _stop_reason(reason: Any) -> StopReason:
    known = _STOP_REASONS.get(reason.lower()) if isinstance(reason, str) else None
    if known is None:
        shown = reason[:40] if isinstance(reason, str) else type(reason).__name__
        raise Unusable(f"ended the completion with {shown!r}, not with stop or length")
    return known


def _usage(usage: Any) -> Usage | None:
    """Zero tokens of a prompt that is not empty are no count."""
    if not isinstance(usage, Mapping):
        return None
    counts = [cast("Mapping[str, Any]", usage).get(name) for name in ("prompt_tokens", "completion_tokens")]
    if any(type(count) is not int or not 0 <= count < 2**40 for count in counts) or not counts[0]:
        return None
    return Usage(*cast("list[int]", counts))
