"""A server of the command line, and how it is asked."""

from __future__ import annotations

import threading
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from harness.processes import Command, Starter, wait_until

TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Server:
    """A process that listens."""

    command: Command
    url: str

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def ask(self, problem: str, **fields: Any) -> httpx.Response:
        """Send one chat completion."""
        body = {"messages": [{"role": "user", "content": problem}], "seed": 3, **fields}
        return httpx.post(f"{self.url}/v1/chat/completions", json=body, timeout=TIMEOUT_S)

    def asked_aside(self, problem: str, **fields: Any) -> Future[httpx.Response]:
        """Send one, and do not wait for its answer."""
        answer: Future[httpx.Response] = Future()

        def ask() -> None:
            try:
                answer.set_result(self.ask(problem, **fields))
            except httpx.HTTPError as error:
                answer.set_exception(error)

        threading.Thread(target=ask, daemon=True).start()
        return answer

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", timeout=TIMEOUT_S)


@contextmanager
def served(
    starter: Starter, place: Path, run: Path, *words: object, port: int = 0, **options: Any
) -> Generator[Server]:
    """Serve a run until the block ends."""
    command = starter.start("serve", run, "--direction", "a-b", "--port", port, *words, cwd=place, **options)
    wait_until(lambda: " at http://" in command.stdout or command.is_over, "the server listens")
    try:
        assert not command.is_over, command.wait().told
        yield Server(command, command.stdout.split(" at ")[1].split()[0])
    finally:
        if not command.is_over:
            command.send(9)
            command.wait()
