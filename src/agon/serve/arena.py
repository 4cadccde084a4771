"""The arena: the page at `/` on which people watch a pair think, its files, and what it asks of the server beside the API."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

import agon
from agon.config import TaskSettings
from agon.records import Problem
from agon.serve.errors import RequestError
from agon.serve.models import Offer
from agon.tasks.sources import verifier_of

MAX_PROBLEMS = 50
"""Most problems of one answer."""

_ROUTE = "/arena"
_PAGE = "index.html"
_MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_POLICY = "; ".join(
    (
        "default-src 'none'",
        *("script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'"),
        *("base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"),
        # A line that wrote a model's text as HTML would raise in the browser.
        *("require-trusted-types-for 'script'", "trusted-types 'none'"),
    )
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    # Browsers ask each time, so that no page meets the scripts of another version; the tag makes that cheap.
    "cache-control": "no-cache",
}

# Who can tell whether an answer to a typed problem is right: a program alone, one that is told the right answer, or none.
_Check = Literal["always", "gold", "never"]


def mount_arena(app: Starlette, offer: Offer) -> None:
    """Add the page at `/`, its files below `/arena/static/`, `/arena/info` and `/arena/problems` to an application."""
    files = _read_files()
    info = _info(offer)

    async def page(request: Request) -> Response:
        _note(request)
        return _file(request, files[_PAGE])

    async def static(request: Request) -> Response:
        _note(request)
        return _file(request, _named(files, request.path_params["name"]))

    async def about(request: Request) -> Response:
        _note(request)
        return _fresh(info)

    async def problems(request: Request) -> Response:
        _note(request)
        return _fresh(_problems(request.query_params.multi_items(), offer))

    app.add_route("/", page, methods=["GET"])
    app.add_route("/arena/static/{name}", static, methods=["GET"])
    app.add_route("/arena/info", about, methods=["GET"])
    app.add_route("/arena/problems", problems, methods=["GET"])


def _note(request: Request) -> None:
    """Count a request as one of the arena's."""
    request.scope["agon"].route = _ROUTE


class _File(NamedTuple):
    content: bytes
    media_type: str
    tag: str


def _read_files() -> dict[str, _File]:
    """Read every file of the page: what is not among them is not served, whatever path is asked for."""
    folder = resources.files("agon.serve") / "static"
    files: dict[str, _File] = {}
    for entry in folder.iterdir():
        media_type = _MEDIA_TYPES.get(PurePosixPath(entry.name).suffix)
        if media_type is not None:
            content = entry.read_bytes()
            files[entry.name] = _File(content, media_type, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
    return files


def _named(files: Mapping[str, _File], name: str) -> _File:
    if name not in files:
        raise RequestError(f"the arena has no file {name[:60]!r}", status=404, code="not_found")
    return files[name]


def _file(request: Request, file: _File) -> Response:
    headers = {**_HEADERS, "etag": file.tag}
    if file.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)


def _info(offer: Offer) -> dict[str, Any]:
    sampling = offer.sampling
    return {
        "name": offer.name,
        "version": agon.__version__,
        "method": offer.method,
        "task": offer.task.name,
        "form": "countdown" if _is_countdown(offer.task) else "text",
        "check": _check_of(offer.task),
        "num_problems": len(offer.problems),
        "temperature": sampling.temperature,
        "max_draft_tokens": sampling.max_draft_tokens,
        "max_tokens": sampling.max_challenge_tokens,
    }


def _is_countdown(task: TaskSettings) -> bool:
    return task.name == "countdown-lite" and task.path is None


def _check_of(task: TaskSettings) -> _Check:
    if _is_countdown(task):
        return "always"
    return "never" if verifier_of(task) in ("expression", "code", "reasoning-gym") else "gold"


def _problems(asked: Iterable[tuple[str, str]], offer: Offer) -> dict[str, Any]:
    """Return some of the problems.

    Raises:
        RequestError: an option that is not known, or out of bounds.
    """
    numbers = {"offset": 0, "limit": 20}
    for name, value in asked:
        if name not in numbers:
            raise RequestError(f"option {name[:60]!r} is not known here: give offset and limit", param=name[:60])
        # Few digits: int() refuses thousands of them.
        if not (value.isascii() and value.isdigit() and len(value) <= 9):
            raise RequestError(f"{name} is {value[:60]!r}: give a whole number", param=name)
        numbers[name] = int(value)
    offset, limit = numbers["offset"], numbers["limit"]
    if not 1 <= limit <= MAX_PROBLEMS:
        raise RequestError(f"limit is {limit}: give 1 to {MAX_PROBLEMS}", param="limit")
    check = _check_of(offer.task)
    shown = [_problem(problem, check) for problem in offer.problems[offset : offset + limit]]
    return {"total": len(offer.problems), "offset": offset, "problems": shown}


def _problem(problem: Problem, check: _Check) -> dict[str, Any]:
    # What checks a program or a puzzle is more than one text, and cannot be sent along with the problem.
    gold = None if check == "never" else problem.gold or None
    return {"id": problem.id, "question": problem.question, "gold": gold, "level": problem.level}


def _fresh(content: Mapping[str, Any]) -> Response:
    return JSONResponse(content, headers={"cache-control": "no-store"})
