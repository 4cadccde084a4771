"""Bodies that no server should take, for `serve_load.py`: each with what is wrong about it and the headers that it is sent with."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

_MESSAGES = [{"role": "user", "content": "What is 6 times 7?"}]


class Malformed(NamedTuple):
    name: str
    body: bytes
    headers: tuple[str, ...] = ()


def malformed() -> list[Malformed]:
    """Return them all."""
    raw = [
        Malformed("nothing", b""),
        Malformed("half an object", b'{"messages": ['),
        Malformed("a list", b"[]"),
        Malformed("a text", b'"hello"'),
        Malformed("null", b"null"),
        Malformed("no JSON", b"messages=hello"),
        Malformed("not UTF-8", b'{"messages": [{"role": "user", "content": "\xff\xfe"}]}'),
        Malformed("half a surrogate pair", b'{"messages": [{"role": "user", "content": "\\ud83d"}]}'),
        Malformed("a key twice", b'{"model": "cascade", "model": "base", "messages": []}'),
        Malformed("NaN", b'{"temperature": NaN, "messages": [{"role": "user", "content": "x"}]}'),
        Malformed("two objects", b'{"messages": []}{"messages": []}'),
        Malformed("nested 100,000 deep", b'{"messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        Malformed("a number of 10,000 digits", b'{"seed": ' + b"9" * 10_000 + b"}"),
        Malformed("2 MiB", json.dumps({"messages": [{"role": "user", "content": "x" * 2**21}]}).encode()),
        Malformed("another media type", _chat(), ("Content-Type: text/plain",)),
        Malformed("another encoding", _chat(), ("Content-Encoding: gzip",)),
        Malformed("another charset", _chat(), ("Content-Type: application/json; charset=utf-16",)),
    ]
    fields: list[tuple[str, Any]] = [
        ("messages", None),
        ("messages", []),
        ("messages", "hello"),
        ("messages", [{}]),
        ("messages", [{"role": "robot", "content": "x"}]),
        ("messages", [{"role": "user", "content": None}]),
        ("messages", [{"role": "user", "content": 5}]),
        ("messages", [{"role": "user", "content": ""}]),
        ("messages", [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]),
        ("messages", [{"role": "system", "content": "be kind"}, *_MESSAGES]),
        ("temperature", "hot"),
        ("temperature", -1),
        ("top_p", 0),
        ("max_tokens", 0),
        ("max_tokens", -1),
        ("max_tokens", 10**9),
        ("max_tokens", "5"),
        ("max_tokens", 1.5),
        ("n", 0),
        ("n", 1000),
        ("stop", ["a"] * 5),
        ("stop", ""),
        ("seed", "one"),
        ("stream", "yes"),
        ("stream_options", {"include_usage": True}),
        ("model", "gpt-4o"),
        ("model", 7),
        ("logprobs", 3),
        ("top_logprobs", 5),
        ("logit_bias", {"50256": -100}),
        ("response_format", {"type": "json_object"}),
        ("tools", [{"type": "function", "function": {"name": "f"}}]),
        ("frequency_penalty", 0.5),
        ("include_drafts", True),
        ("foo", 1),
        ("user", 5),
        ("gold", 42),
    ]
    return [*raw, *(Malformed(f"{name} {json.dumps(value)[:40]}", _chat(**{name: value})) for name, value in fields)]


def _chat(**fields: Any) -> bytes:
    return json.dumps({"messages": _MESSAGES, **fields}).encode()
