"""A request's body: read up to a limit, and taken for JSON only if it is nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any, NoReturn

from agon.serve.asgi import ClientGone, Receive, Scope, header_values
from agon.serve.errors import RequestError

# What is larger is parsed in a thread, so that the event loop stays free for others.
_INLINE_BYTES = 64 * 1024


async def read_json(scope: Scope, receive: Receive, *, max_bytes: int) -> dict[str, Any]:
    """Read the object that a request's body is.

    Raises:
        RequestError: it is too large, or no JSON object that can mean only one thing.
        ClientGone: the client left before it had sent everything.
    """
    _require_plain_json(scope)
    content = await _read(scope, receive, max_bytes)
    return parse_object(content) if len(content) <= _INLINE_BYTES else await asyncio.to_thread(parse_object, content)


def parse_object(content: bytes) -> dict[str, Any]:
    """Parse strict JSON: one object, no key twice, no NaN, whole characters.

    Raises:
        RequestError: it is anything else.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise _invalid(f"byte {error.start} is not UTF-8") from None
    try:
        tree = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
        if "\\u" in text:
            # Half a surrogate pair, which JSON can spell and UTF-8 cannot.
            json.dumps(tree, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise _invalid(f"{error.msg} at character {error.pos}") from None
    except UnicodeEncodeError:
        raise _invalid("a text holds half of a surrogate pair") from None
    except ValueError:
        raise _invalid("a number has thousands of digits") from None
    except RecursionError:
        raise _invalid("it is nested too deeply") from None
    if not isinstance(tree, dict):
        raise _invalid("it is no object")
    return tree


def _require_plain_json(scope: Scope) -> None:
    """Refuse other media types, as which another site's page could send a form in a user's name without asking."""
    kinds = header_values(scope, b"content-type")
    media_type, _, rest = (kinds[0] if len(kinds) == 1 else b"").partition(b";")
    charset = rest.replace(b" ", b"").replace(b'"', b"").lower()
    if media_type.strip().lower() != b"application/json" or charset not in (b"", b"charset=utf-8"):
        raise RequestError("the body's media type is not known to be JSON: send content-type: application/json")
    coded = [value.lower() for value in header_values(scope, b"content-encoding")]
    if coded not in ([], [b"identity"]):
        raise RequestError("the body is compressed, which is not read here: send it without content-encoding")


async def _read(scope: Scope, receive: Receive, max_bytes: int) -> bytes:
    for value in header_values(scope, b"content-length"):
        if value.isdigit() and (len(value) > 18 or int(value) > max_bytes):
            raise _too_large(max_bytes)
    chunks: list[bytes] = []
    num_bytes = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk: bytes = message.get("body", b"")
        num_bytes += len(chunk)
        if num_bytes > max_bytes:
            raise _too_large(max_bytes)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)


def _object(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in pairs:
        if key in tree:
            raise _invalid(f"the key {key[:80]!r} stands twice in one object")
        tree[key] = value
    return tree


def _refuse_constant(name: str) -> NoReturn:
    raise _invalid(f"{name} is no JSON number")


def _invalid(reason: str) -> RequestError:
    return RequestError(f"the body is not the JSON object that is needed: {reason}", code="invalid_json")


def _too_large(max_bytes: int) -> RequestError:
    return RequestError(
        f"the body has more than {max_bytes} bytes: send less, or start the server with a larger --max-body",
        status=413,
        code="request_too_large",
    )
