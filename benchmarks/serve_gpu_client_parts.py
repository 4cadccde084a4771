"""The clients of `serve_gpu.py`, in a process of their own: all requests at once, each over a connection of its own.

    python benchmarks/serve_gpu_client_parts.py HOST PORT < bodies.jsonl

Prints one JSON object: the seconds until the last answer was there, and of each request its own, its tokens, and the seconds of its
stages where the answer tells them. Answers are parsed when all are there.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any


def main() -> None:
    host, port = sys.argv[1], int(sys.argv[2])
    bodies = [line.strip().encode() for line in sys.stdin if line.strip()]
    print(json.dumps(asyncio.run(ask_all(host, port, bodies))))


async def ask_all(host: str, port: int, bodies: list[bytes]) -> dict[str, Any]:
    started = time.perf_counter()
    answers = await asyncio.gather(*(ask(host, port, body) for body in bodies))
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "requests": [told(*answer) for answer in answers]}


async def ask(host: str, port: int, body: bytes) -> tuple[bytes, float]:
    """Return an answer with its head, and how long it took."""
    started = time.perf_counter()
    reader, writer = await asyncio.open_connection(host, port, limit=2**24)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    parts: list[bytes] = []
    while part := await reader.read(2**20):
        parts.append(part)
    seconds = time.perf_counter() - started
    writer.close()
    return b"".join(parts), seconds


def told(content: bytes, seconds: float) -> dict[str, Any]:
    head, _, rest = content.partition(b"\r\n\r\n")
    status = int(head.split()[1]) if head else 0
    if status != 200:
        return {"seconds": seconds, "status": status, "error": rest[-300:].decode(errors="replace")}
    is_chunked = b"transfer-encoding: chunked" in head.lower()
    text = (dechunked(rest) if is_chunked else rest).decode()
    found = streamed(text) if b"text/event-stream" in head else whole(json.loads(text))
    return {"seconds": seconds, "status": status, "bytes": len(content), **found}


def whole(answer: dict[str, Any]) -> dict[str, Any]:
    return {
        "tokens": answer["usage"]["completion_tokens"],
        "prompt_tokens": answer["usage"]["prompt_tokens"],
        "stage_seconds": [stage["seconds"] for stage in answer["agon"][0]["stages"]],
        "characters": len(answer["choices"][0]["message"]["content"]),
    }


def streamed(text: str) -> dict[str, Any]:
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line.startswith("data: ")]
    is_whole = bool(lines) and lines[-1] == "[DONE]"
    events = [json.loads(line) for line in lines[: len(lines) - is_whole]]
    deltas = [choice["delta"] for event in events for choice in event.get("choices", ())]
    usage = next((event["usage"] for event in events if event.get("usage")), None)
    if usage is None or not is_whole:
        return {"tokens": 0, "error": (lines or ["nothing"])[-1][:300]}
    ended = [event["agon"] for event in events if event.get("agon", {}).get("event") == "stage_ended"]
    return {
        "tokens": usage["completion_tokens"],
        "prompt_tokens": usage["prompt_tokens"],
        "stage_seconds": [stage["seconds"] for stage in ended],
        "characters": sum(len(delta.get("content") or "") for delta in deltas),
        "events": len(events),
    }


def dechunked(content: bytes) -> bytes:
    parts: list[bytes] = []
    at = 0
    while (end := content.find(b"\r\n", at)) >= 0 and (length := int(content[at:end], 16)):
        parts.append(content[end + 2 : end + 2 + length])
        at = end + 2 + length + 2
    return b"".join(parts)


if __name__ == "__main__":
    main()
