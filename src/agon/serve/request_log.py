"""What stands before every route: one line of log a request, its metrics, and errors in OpenAI's shape."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from agon.errors import AgonError, EngineError
from agon.secrecy import REDACTED, redact_text
from agon.serve.asgi import App, ClientGone, Message, Receive, Scope, Send, send_json
from agon.serve.backend import EndpointError
from agon.serve.errors import request_error_of
from agon.serve.metrics import Metrics

LOGGER = logging.getLogger("agon.serve")

CLIENT_LEFT = 499
_MOST_SHOWN = 100
# What is read of a path, so that no token is cut in two before it is known for one. Units: characters.
_MOST_READ = 1000


@dataclass(slots=True)
class LogEntry:
    """What is noted of a request. It has no text of a client's but its path. `client` is for whom the queue keeps turns."""

    client: str
    started: float
    route: str = "other"
    model: str = ""
    status: int = 0
    code: str = ""
    num_prompt_tokens: int = 0
    num_completion_tokens: int = 0

    @property
    def seconds(self) -> float:
        """Time since the request came."""
        return time.perf_counter() - self.started


class RequestLog:
    """Notes every request in log and metrics, and answers every error, expected or not: nobody is shown a trace."""

    def __init__(self, app: App, metrics: Metrics, keys: Sequence[str]) -> None:
        self._app = app
        self._metrics = metrics
        self._keys = sorted(keys, key=len, reverse=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        peer = scope.get("client")
        entry = LogEntry(client=peer[0] if peer else "", started=time.perf_counter())
        scope["agon"] = entry

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                entry.status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except ClientGone:
            entry.code = "client_left"
        except asyncio.CancelledError:
            entry.code = "cancelled"
            raise
        except Exception as error:
            await self._answer(error, entry, noted)
        finally:
            self._note(scope, entry)

    async def _answer(self, error: Exception, entry: LogEntry, send: Send) -> None:
        told = request_error_of(error)
        entry.code = told.code or ""
        if not isinstance(error, AgonError):
            log_mistake(error)
        elif isinstance(error, EngineError) and not isinstance(error, EndpointError):
            # An endpoint's own words may quote what a client sent; the engine's do not.
            LOGGER.error("%s", told)
        if entry.status == 0:
            await send_json(send, told.status, told.to_json(), headers=told.headers)

    def _note(self, scope: Scope, entry: LogEntry) -> None:
        status = CLIENT_LEFT if entry.code == "client_left" or entry.status == 0 else entry.status
        seconds = entry.seconds
        self._metrics.requests.labels(entry.route, entry.model, status).inc()
        self._metrics.request_seconds.labels(entry.route).observe(seconds)
        if status >= 500 or (entry.code and status < 400):
            self._metrics.errors.labels(entry.code or "error").inc()
        if LOGGER.isEnabledFor(logging.INFO):
            LOGGER.info(
                "%s %s %d %s model=%s tokens=%d+%d %.3fs",
                scope["method"],
                self._shown(scope["path"]) if status >= 400 else scope["path"],
                status,
                entry.code or "-",
                entry.model or "-",
                entry.num_prompt_tokens,
                entry.num_completion_tokens,
                seconds,
            )

    def _shown(self, path: str) -> str:
        """Return a path that led to nothing as it may be printed: without a key that somebody put into it, and quoted, so that it writes no
        line of its own. Queries, the more likely place for a key, are not logged at all.
        """
        for key in self._keys:
            path = path.replace(key, REDACTED)
        return quote(redact_text(path[:_MOST_READ])[:_MOST_SHOWN], safe="/:@!$&'()*+,;=[]")


def log_mistake(error: Exception) -> None:
    """Log where a mistake of our own happened. Its message is left out: it may quote what a client sent."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    LOGGER.error("a mistake in the server: %s\n%s", type(error).__name__, frames)
