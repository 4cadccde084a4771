"""From an application to a process that listens: the socket, the signals, the end."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn

from agon.errors import ConfigError
from agon.serve.guard import bounds_for, guarded
from agon.serve.request_log import LOGGER
from agon.serve.service import Service
from agon.signals import ending_signals

# What is being sent when the grace is over gets so long to arrive.
_FAREWELL_S = 2
_KEEP_ALIVE_S = 65


def bind(host: str, port: int) -> socket.socket:
    """Take an address without listening on it yet: until the server is ready, whoever asks is refused at once. Port 0 takes a free one.

    Raises:
        ConfigError: it cannot be had.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
    except (OSError, UnicodeError):
        raise ConfigError(f"--host is {host!r}, which is no address of a machine: give 127.0.0.1 or 0.0.0.0") from None
    taken = socket.socket(family, kind)
    try:
        if sys.platform != "win32":
            # A port is free again as soon as its last server has ended.
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
    except OSError as error:
        taken.close()
        raise _unavailable(host, port, error) from None
    return taken


def url_of(taken: socket.socket, host: str) -> str:
    """Return the address of a server for a browser on this machine."""
    port = taken.getsockname()[1]
    here = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{here}]:{port}" if ":" in here else f"http://{here}:{port}"


def serve(
    app: Any, service: Service, taken: socket.socket, *, grace_s: float, on_ready: Callable[[], None] = lambda: None
) -> bool:
    """Answer requests until SIGINT, SIGTERM or SIGHUP, and then let those that run come to their end within `grace_s`.

    Return whether they could: a second signal ends them at once. Units: seconds.

    Raises:
        AgonError: the backend does not start.
        OSError: somebody else listens on the address.
    """
    config = uvicorn.Config(
        app,
        http=guarded(bounds_for(service.limits.max_body_bytes)),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        # Longer than clients keep theirs: whoever reuses a connection just when it is closed loses a request.
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_FAREWELL_S,
    )
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        return runner.run(_serve(uvicorn.Server(config), service, taken, grace_s=grace_s, on_ready=on_ready))


async def _serve(
    server: uvicorn.Server, service: Service, taken: socket.socket, *, grace_s: float, on_ready: Callable[[], None]
) -> bool:
    await service.backend.start()
    try:
        listening = asyncio.create_task(server.serve(sockets=[taken]))
        while not (server.started or listening.done()):
            await asyncio.sleep(0.01)
        if listening.done():
            await listening
        # What was loaded stays: looking through all of it again and again would hold every request up for a moment.
        gc.collect()
        gc.freeze()
        first, second = asyncio.Event(), asyncio.Event()
        with _signals(first, second):
            on_ready()
            await _first_of(listening, first.wait())
            await _first_of(service.drain(grace_s), second.wait())
            service.give_up()
            server.should_exit, server.force_exit = True, second.is_set()
            await listening
    finally:
        await service.backend.close()
    return not second.is_set()


async def _first_of(*waits: Any) -> None:
    """Wait until one is done, and give up the others but tasks."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task, wait in zip(tasks, waits, strict=True):
        if task is not wait:
            task.cancel()


@contextmanager
def _signals(first: asyncio.Event, second: asyncio.Event) -> Generator[None]:
    """Set the events at the first and at the second signal. Off the main thread, where Python allows no handlers, nothing sets them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()

    def on_loop() -> None:
        if first.is_set():
            second.set()
        else:
            LOGGER.info("ending: what runs may finish, what comes is refused; once more to end at once")
            first.set()

    def handle(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(on_loop)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, *ending_signals())}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def log_to_stderr() -> None:
    """Write the log of requests to standard error, and errors of the HTTP library, without traces: they may quote a client."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    handler.addFilter(_without_trace)
    for name, level in ((LOGGER.name, logging.INFO), ("uvicorn", logging.ERROR)):
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.addHandler(handler)
        logger.propagate = False


def _without_trace(record: logging.LogRecord) -> bool:
    record.exc_info = record.exc_text = None
    return True


def _unavailable(host: str, port: int, error: OSError) -> ConfigError:
    if error.errno == errno.EADDRINUSE:
        return ConfigError(f"port {port} of {host} is taken: give another --port, or --port 0 for a free one")
    if error.errno == errno.EACCES:
        return ConfigError(f"port {port} of {host} may not be used: give a --port from 1024 on")
    return ConfigError(f"--host {host} --port {port} cannot be used: {error.strerror}")
