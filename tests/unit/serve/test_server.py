from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from agon.errors import ConfigError
from agon.serve.server import bind, url_of

# A server in a process of its own, whose stages take as many seconds as its argument says.
PROGRAM = """
import sys
from pathlib import Path
from agon.config import TaskSettings
from agon.match.asking import Sampling
from agon.records import Prompt, Summary
from agon.methods.registry import method_named
from agon.serve.admission import Admission
from agon.serve.app import create_app
from agon.serve.models import Offer, run_models
from agon.serve.scripted import ScriptedBackend
from agon.serve.server import bind, log_to_stderr, serve, url_of
from agon.serve.service import Service

class Plain:
    def draft(self, problem):
        return Prompt((1,), problem.question)
    def challenge(self, problem, summaries):
        return Prompt((1,), problem.question)
    def summarize(self, problem, completion, *, max_tokens, shows_answer=False):
        return Summary(completion.text, is_empty=False, has_leak=False, num_withheld=0)

seconds, grace_s = map(float, sys.argv[1:])
plain = Plain()
service = Service(
    offer=Offer("a run", run_models(method_named("agon"), "a-b"), Sampling(99, 99, 99), plain, plain, "tags",
                TaskSettings(name="custom", path="x.jsonl", verifier="exact")),
    backend=ScriptedBackend(lambda turn: f"{turn.role} is done", seconds=seconds, num_pieces=5),
    check=None,
    admission=Admission(max_running=8, max_queue=8),
)
log_to_stderr()
with bind("127.0.0.1", 0) as taken:
    is_whole = serve(create_app(service), service, taken, grace_s=grace_s,
                     on_ready=lambda: print(url_of(taken, "127.0.0.1"), flush=True))
print("whole" if is_whole else "cut off", flush=True)
"""


@contextmanager
def running(seconds, grace_s):
    """Start a server; give its process and its address."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(seconds), str(grace_s)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def chat(url, **fields):
    body = {"messages": [{"role": "user", "content": "a private problem"}], **fields}
    return httpx.post(f"{url}/v1/chat/completions", json=body, timeout=30)


def in_thread(function, *arguments, **fields):
    """Start a call; return a function that waits for what it returned."""
    box = []
    thread = threading.Thread(target=lambda: box.append(function(*arguments, **fields)))
    thread.start()

    def result():
        thread.join(30)
        return box[0]

    return result


def wait_for(condition, seconds=10):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it did not become so"
        time.sleep(0.02)


def running_matches(url):
    lines = httpx.get(f"{url}/metrics").text.splitlines()
    return float(next(line for line in lines if line.startswith("agon_matches_running")).split()[1])


def test_the_first_signal_lets_finish_what_runs_and_refuses_what_comes():
    with running(seconds=0.6, grace_s=20) as (process, url):
        whole, streamed = in_thread(chat, url), in_thread(chat, url, stream=True)
        wait_for(lambda: running_matches(url) == 2)
        process.send_signal(signal.SIGTERM)
        wait_for(lambda: httpx.get(f"{url}/health").status_code == 503)
        late = chat(url)
        assert (late.status_code, late.json()["error"]["code"]) == (503, "shutting_down")
        assert whole().json()["choices"][0]["message"]["content"] == "challenger is done"
        assert streamed().text.endswith("data: [DONE]\n\n")
        output, log = process.communicate(timeout=20)
        assert (process.returncode, output) == (0, "whole\n")
        assert "Traceback" not in log
        assert "private" not in log
        with pytest.raises(httpx.ConnectError):
            chat(url)


def test_the_grace_bounds_the_end_and_whoever_still_waits_is_told():
    with running(seconds=60, grace_s=0.2) as (process, url):
        whole, streamed = in_thread(chat, url), in_thread(chat, url, stream=True)
        wait_for(lambda: running_matches(url) == 2)
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert whole().status_code == 503
        assert '"shutting_down"' in streamed().text
        assert "[DONE]" not in streamed().text
        output, _ = process.communicate(timeout=20)
        assert (process.returncode, output) == (0, "whole\n")
        assert time.monotonic() - started < 10


def test_a_second_signal_ends_at_once():
    with running(seconds=60, grace_s=60) as (process, url):
        asked = in_thread(_status, url)
        wait_for(lambda: running_matches(url) == 1)
        process.send_signal(signal.SIGTERM)
        wait_for(lambda: httpx.get(f"{url}/health").status_code == 503)
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        output, log = process.communicate(timeout=20)
        assert time.monotonic() - started < 5
        assert (process.returncode, output) == (0, "cut off\n")
        assert "Traceback" not in log
        assert asked() in (503, "broken off")


def _status(url):
    try:
        return chat(url).status_code
    except httpx.TransportError:
        return "broken off"


@pytest.mark.parametrize(
    ("stream", "behind"),
    [(False, b""), (True, b""), (True, b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n")],
    ids=["whole", "streamed", "another request behind it"],
)
def test_a_closed_socket_frees_its_matches_within_two_seconds(stream, behind):
    with running(seconds=60, grace_s=1) as (_, url):
        host, port = url.removeprefix("http://").split(":")
        body = json.dumps({"messages": [{"role": "user", "content": "x"}], "stream": stream, "n": 4}).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        with socket.create_connection((host, int(port))) as sock:
            sock.sendall(head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body + behind)
            wait_for(lambda: running_matches(url) == 4)
        started = time.monotonic()
        wait_for(lambda: running_matches(url) == 0, seconds=2)
        assert time.monotonic() - started < 2


def test_a_large_body_is_refused_while_health_answers():
    with running(seconds=0, grace_s=1) as (_, url):
        host, port = url.removeprefix("http://").split(":")
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        with socket.create_connection((host, int(port))) as sock:
            sock.sendall(head.encode() + b"content-length: 67108864\r\n\r\n")
            # Not one byte of it was sent.
            assert sock.recv(4096).startswith(b"HTTP/1.1 413 ")
        with socket.create_connection((host, int(port))) as sock:
            sock.sendall(head.encode() + b"transfer-encoding: chunked\r\n\r\n")
            answer = b""
            for _ in range(64):
                try:
                    sock.sendall(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
                except OSError:
                    break
            while not answer.startswith(b"HTTP/1.1 413 ") and (more := sock.recv(4096)):
                answer += more
            assert answer.startswith(b"HTTP/1.1 413 ")
        started = time.monotonic()
        assert httpx.get(f"{url}/health").status_code == 200
        assert time.monotonic() - started < 1


def test_an_address_that_cannot_be_had_is_told_in_one_line():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} of 127.0.0.1 is taken: give another --port"):
            bind("127.0.0.1", port)
    with pytest.raises(ConfigError, match="no address of a machine"):
        bind("no..name", 0)
    with pytest.raises(ConfigError, match=r"--host 192\.0\.2\.1 --port 0 cannot be used"):
        bind("192.0.2.1", 0)


def test_an_address_is_told_as_a_browser_on_this_machine_opens_it():
    with bind("0.0.0.0", 0) as taken:
        port = taken.getsockname()[1]
        assert port > 0
        assert url_of(taken, "0.0.0.0") == f"http://127.0.0.1:{port}"
        assert url_of(taken, "localhost") == f"http://localhost:{port}"
        assert url_of(taken, "::") == f"http://[::1]:{port}"


def test_nobody_is_let_wait_while_the_address_is_taken_and_nothing_listens():
    with bind("127.0.0.1", 0) as taken, pytest.raises(OSError, match="refused"):
        socket.create_connection(taken.getsockname(), timeout=5)
