"""Events as the network cuts them, and the text they add up to."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.answers import visible_text
from agon.serve.remote.incoming import MAX_EVENT_BYTES, MAX_TEXT_CHARS, Incoming, SseEvent, SseReader, Usage
from agon.serve.remote.refusals import Unusable


def chunk(finish_reason=None, usage=None, **delta) -> SseEvent:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return SseEvent("", json.dumps({"choices": [choice], **({"usage": usage} if usage else {})}))


def text_of(*events: SseEvent) -> str:
    incoming = Incoming()
    for event in events:
        incoming.take(event)
    incoming.finish()
    return incoming.text


STREAM = (
    ": ping\r\n\r\n"
    'data: {"a": "héllo \U0001f600"}\r\n\r\n'
    "event: error\nid: 7\ndata: one\ndata: two\n\n"
    "retry: 10\n\n"
    "data:[DONE]"
).encode()
EVENTS = [SseEvent("", '{"a": "héllo \U0001f600"}'), SseEvent("error", "one\ntwo"), SseEvent("", "[DONE]")]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_events_are_the_same_wherever_the_network_cuts_them(cuts):
    events, found = SseReader(), []
    ends = [*sorted(cuts), len(STREAM)]
    for start, end in zip([0, *ends], ends, strict=False):
        found += events.feed(STREAM[start:end])
    assert found + events.flush() == EVENTS


def test_events_come_byte_by_byte():
    events, found = SseReader(), []
    for position in range(len(STREAM)):
        found += events.feed(STREAM[position : position + 1])
    assert found == EVENTS[:2]
    assert events.flush() == EVENTS[2:]
    assert events.flush() == []


def test_a_line_that_never_ends_is_refused():
    events = SseReader()
    for _ in range(MAX_EVENT_BYTES // 65536):
        events.feed(b"x" * 65536)
    with pytest.raises(Unusable, match="an event of more than 1048576 bytes"):
        events.feed(b"x")


def test_an_event_of_lines_without_end_is_refused():
    events = SseReader()
    line = b"data: " + b"x" * 1018 + b"\n"
    for _ in range(MAX_EVENT_BYTES // 1024):
        events.feed(line)
    with pytest.raises(Unusable, match="an event of more than"):
        events.feed(line)


def test_bytes_that_are_no_utf8_are_refused():
    with pytest.raises(Unusable, match="no UTF-8"):
        SseReader().feed(b"data: \xff\xfe\n")


def test_content_adds_up_and_the_reason_of_the_end_is_known():
    incoming = Incoming()
    assert incoming.take(chunk(role="assistant", content="")) == ""
    assert incoming.take(chunk(content="Hel")) == "Hel"
    assert incoming.take(chunk(content="lo")) == "lo"
    assert incoming.take(chunk("stop")) == ""
    assert not incoming.is_done
    incoming.take(SseEvent("", "[DONE]"))
    assert incoming.is_done
    assert incoming.finish() == ("", "stop")
    assert incoming.text == "Hello"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_stands_before_the_content_in_its_marks(field):
    said = text_of(
        chunk(**{field: "Hm"}), chunk(**{field: ", 42?"}), chunk(content="It is"), chunk("stop", content=" 42.")
    )
    assert said == "<think>Hm, 42?</think>It is 42."
    assert visible_text(said) == "It is 42."


def test_reasoning_under_both_names_is_read_once():
    assert text_of(chunk("stop", reasoning="Hm", reasoning_content="Hm", content="x")) == "<think>Hm</think>x"


def test_what_follows_the_last_reasoning_is_what_is_visible():
    said = text_of(chunk(reasoning="a"), chunk(content="b"), chunk(reasoning="c"), chunk("stop", content="d"))
    assert said == "<think>a</think>b<think>c</think>d"
    assert visible_text(said) == "d"


def test_reasoning_without_content_leaves_nothing_visible():
    assert visible_text(text_of(chunk("stop", reasoning="only this"))) == ""


def test_halves_of_a_character_are_joined():
    incoming = Incoming()
    assert incoming.take(SseEvent("", r'{"choices": [{"delta": {"content": "a\ud83d"}}]}')) == "a"
    assert incoming.take(SseEvent("", '{"choices": []}')) == ""
    assert incoming.take(SseEvent("", r'{"choices": [{"delta": {"content": "\ude00b"}}]}')) == "\U0001f600b"
    incoming.take(chunk("stop"))
    assert incoming.finish() == ("", "stop")


@pytest.mark.parametrize("content", [r"a\ud83d", r"a\ude00", r"a\ude00\ud83d"])
def test_a_half_of_a_character_alone_is_replaced(content):
    incoming = Incoming()
    text = incoming.take(
        SseEvent("", f'{{"choices": [{{"delta": {{"content": "{content}"}}, "finish_reason": "stop"}}]}}')
    )
    rest, _ = incoming.finish()
    assert set(text + rest) == {"a", "\ufffd"}
    assert incoming.text == text + rest


@pytest.mark.parametrize(
    ("reason", "means"),
    [("stop", "stop"), ("STOP", "stop"), ("eos_token", "stop"), ("length", "length"), ("model_length", "length")],
)
def test_reasons_of_the_end_are_mapped(reason, means):
    incoming = Incoming()
    incoming.take(chunk(reason, content="x"))
    assert incoming.finish() == ("", means)


@pytest.mark.parametrize("reason", ["content_filter", "tool_calls", 7, {}])
def test_any_other_reason_of_the_end_is_an_error(reason):
    with pytest.raises(Unusable, match=r"ended the completion with .*, not with stop or length"):
        Incoming().take(chunk(reason))


def test_a_stream_without_the_reason_of_its_end_was_cut_off():
    for events in ([], [chunk(content="x")], [SseEvent("", '{"choices": []}'), SseEvent("", "[DONE]")]):
        incoming = Incoming()
        for event in events:
            incoming.take(event)
        with pytest.raises(Unusable, match="before the completion was finished"):
            incoming.finish()


def test_usage_is_the_last_that_was_counted():
    incoming = Incoming()
    incoming.take(chunk(usage={"prompt_tokens": 5, "completion_tokens": 1}, content="x"))
    incoming.take(
        SseEvent("", '{"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14}}')
    )
    incoming.take(SseEvent("", '{"choices": [], "usage": null}'))
    assert incoming.usage == Usage(5, 9)


@pytest.mark.parametrize(
    "usage",
    [
        *("{}", "[]", "7", '{"prompt_tokens": 5}', '{"prompt_tokens": 0, "completion_tokens": 0}'),
        *('{"prompt_tokens": -1, "completion_tokens": 2}', '{"prompt_tokens": "5", "completion_tokens": 2}'),
        *('{"prompt_tokens": true, "completion_tokens": 2}', '{"prompt_tokens": 1e9, "completion_tokens": 2}'),
    ],
)
def test_usage_that_counts_nothing_is_none(usage):
    incoming = Incoming()
    incoming.take(SseEvent("", f'{{"choices": [], "usage": {usage}}}'))
    assert incoming.usage is None


@pytest.mark.parametrize(
    "data",
    [
        *("", "no json", "<html>", "[]", "7", "null", '"x"', "{" * 100_000, "[" * 100_000),
        *('{"choices": {"a": 1}}', '{"choices": [7]}', '{"choices": [{"delta": "x"}]}', '{"choices": [{"index": 1}]}'),
        *('{"choices": [{"delta": {"content": 7}}]}', '{"choices": [{"delta": {"content": [{"type": "text"}]}}]}'),
    ],
)
def test_what_no_completion_is_made_of_is_an_error_in_one_line(data):
    with pytest.raises(Unusable, match=r"^sent ") as raised:
        Incoming().take(SseEvent("", data))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (SseEvent("", '{"error": {"message": "out of\\nmemory", "code": 500}}'), "out of memory"),
        (SseEvent("", '{"error": "overloaded"}'), "overloaded"),
        (SseEvent("error", '{"message": "gone"}'), "gone"),
        (SseEvent("", '{"error": {"code": 7}}'), "it says no more"),
    ],
)
def test_an_error_in_the_stream_is_an_error(event, says):
    with pytest.raises(Unusable, match=f"^broke off with an error: {says}$"):
        Incoming().take(event)


def test_a_completion_without_end_is_an_error():
    incoming = Incoming()
    for _ in range(8):
        incoming.take(chunk(content="x" * (MAX_TEXT_CHARS // 8)))
    with pytest.raises(Unusable, match="more than 8388608 characters"):
        incoming.take(chunk(content="x"))
