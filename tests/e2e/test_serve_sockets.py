"""A served pair through bare sockets: what connections may do that no client library does."""

from __future__ import annotations

import json
import random
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx
import pytest

PROBLEM = "12 7 5 = 24"
# Patient: the machine may be busy.
get = partial(httpx.get, timeout=60)
CHAT = "/v1/chat/completions"
LEFT = 'agon_cancelled_total{reason="client"}'


@pytest.fixture
def connect(served):
    """Return a function that opens a connection to the served pair; all are closed at the end."""
    host, port = served.removeprefix("http://").split(":")
    opened = []

    def open_one():
        opened.append(socket.create_connection((host, int(port)), timeout=30))
        return opened[-1]

    yield open_one
    for sock in opened:
        sock.close()


def request(path=CHAT, *, method="POST", version="1.1", headers=(), **fields):
    """Write a request; one with fields, or a chat, has a body."""
    lines = [f"{method} {path} HTTP/{version}", "Host: 127.0.0.1", *headers]
    body = b""
    if method == "POST":
        tree = {"messages": [{"role": "user", "content": PROBLEM}], "seed": 1, **fields}
        body = json.dumps(tree).encode()
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def read_answer(file, *, has_body=True):
    """Read one answer: its status, its headers, its body."""
    status = int(file.readline().split()[1])
    headers = dict(line.decode().rstrip().lower().split(": ", 1) for line in iter(file.readline, b"\r\n"))
    if not has_body:
        return status, headers, b""
    if "content-length" in headers:
        return status, headers, file.read(int(headers["content-length"]))
    if headers.get("transfer-encoding") != "chunked":
        return status, headers, file.read()
    body = b""
    while size := int(file.readline(), 16):
        body += file.read(size)
        file.readline()
    file.readline()
    return status, headers, body


def text_of(body):
    return json.loads(body)["choices"][0]["message"]["content"]


def ask(sock, content):
    sock.sendall(content)
    with sock.makefile("rb") as file:
        return read_answer(file)


def counted(served, name):
    lines = get(f"{served}/metrics").text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


def wait_until_idle(served, seconds=15.0):
    """Wait until nobody plays or waits: a moment, and on a busy machine some."""
    limit = time.monotonic() + seconds
    while counted(served, "agon_matches_running") or counted(served, "agon_requests_waiting"):
        assert time.monotonic() < limit, f"somebody's match is still played {seconds:g} s after all have left"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def expected(served):
    """What the problem's chat with seed 1 comes to."""
    body = {"messages": [{"role": "user", "content": PROBLEM}], "seed": 1}
    return httpx.post(f"{served}{CHAT}", json=body, timeout=60).json()["choices"][0]["message"]["content"]


def test_requests_that_come_in_one_piece_are_answered_one_after_another(connect, expected):
    sock = connect()
    sock.sendall(request() + request("/health", method="GET") + request(stream=True) + request(seed=2))
    with sock.makefile("rb") as file:
        first, health, streamed, last = (read_answer(file) for _ in range(4))
    assert text_of(first[2]) == expected
    assert json.loads(health[2]) == {"status": "ok"}
    assert streamed[2].endswith(b"data: [DONE]\n\n")
    assert json.loads(last[2])["agon"][0]["seed"] == 2


def test_a_request_that_comes_byte_by_byte_is_answered(connect, expected):
    sock, content = connect(), request()
    head = content.index(b"\r\n\r\n") + 4
    for part in (content[:5], content[5 : head - 2], content[head - 2 : head + 10], content[head + 10 :]):
        sock.sendall(part)
        time.sleep(0.05)
    with sock.makefile("rb") as file:
        assert text_of(read_answer(file)[2]) == expected


def test_a_chunked_body_is_read_whole(connect, expected):
    body = request().partition(b"\r\n\r\n")[2]
    head = (
        b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunks = [b"%x\r\n%b\r\n" % (len(body[i : i + 7]), body[i : i + 7]) for i in range(0, len(body), 7)]
    assert text_of(ask(connect(), head % CHAT.encode() + b"".join(chunks) + b"0\r\n\r\n")[2]) == expected


def test_half_a_request_harms_nobody(connect, served, expected):
    content = request()
    for half in (b"", b"POST", content[:40], content[:-10], content[: content.index(b"\r\n\r\n") + 4]):
        sock = connect()
        sock.sendall(half)
        sock.shutdown(socket.SHUT_WR)
        # Nothing is answered, or that it was no request.
        assert sock.recv(4096)[:12] in (b"", b"HTTP/1.1 400")
        sock.close()
    wait_until_idle(served)
    assert text_of(ask(connect(), content)[2]) == expected


def test_what_is_no_http_is_refused(connect, expected):
    for noise in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"hello\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n\r\n"):
        sock = connect()
        sock.sendall(noise)
        assert sock.recv(4096).startswith(b"HTTP/1.1 400 ")
    assert text_of(ask(connect(), request())[2]) == expected


def test_http_1_0_gets_whole_answers_and_its_connection_closed(connect, expected):
    for fields in ({}, {"stream": True}):
        sock = connect()
        sock.sendall(request(version="1.0", **fields))
        with sock.makefile("rb") as file:
            status, headers, body = read_answer(file)
            assert file.read() == b""
        assert "transfer-encoding" not in headers
        if fields:
            # It would have to be sent in chunks.
            assert (status, json.loads(body)["error"]["param"]) == (400, "stream")
        else:
            assert (status, text_of(body)) == (200, expected)


def test_head_has_the_headers_and_no_body(connect):
    sock = connect()
    sock.sendall(request("/health", method="HEAD") + request("/", method="HEAD") + request("/health", method="GET"))
    with sock.makefile("rb") as file:
        health, page = (read_answer(file, has_body=False) for _ in range(2))
        assert json.loads(read_answer(file)[2]) == {"status": "ok"}
    assert (health[0], page[0]) == (200, 200)
    assert page[1]["content-type"].startswith("text/html")


def test_the_arena_page_and_its_files_answer(served):
    page = get(served).text
    names = re.findall(r'"arena/static/([^"]+)"', page)
    assert {"main.js", "arena.css"} <= set(names)
    for name in names:
        assert get(f"{served}/arena/static/{name}").status_code == 200, name
    assert get(f"{served}/arena/info").json()["form"] == "countdown"


def test_clients_that_leave_in_the_middle_leave_nothing_behind(connect, served, expected):
    draw, before = random.Random(6), counted(served, LEFT)
    answers = []

    def one(number):
        sock, stream, leaves = connect(), number % 4 < 2, number % 2 == 0
        # Long ones, so that most are left while they are played or wait.
        fields = {"n": 4, "temperature": 2} if leaves else {}
        sock.sendall(request(stream=stream, **fields))
        if leaves:
            time.sleep(draw.uniform(0, 0.5))
            sock.close()
            return
        with sock.makefile("rb") as file:
            answers.append((stream, read_answer(file)))

    with ThreadPoolExecutor(40) as threads:
        list(threads.map(one, range(40)))
    assert text_of(ask(connect(), request())[2]) == expected
    wait_until_idle(served)
    assert counted(served, LEFT) > before
    assert len(answers) == 20
    for stream, (status, _, body) in answers:
        assert status == 200
        assert body.endswith(b"data: [DONE]\n\n") if stream else text_of(body) == expected


def test_many_at_once_are_neither_lost_nor_mixed(connect):
    models = ("cascade", "cascade-a-b", "drafter", "base")

    def one(worker):
        sock = connect()
        with sock.makefile("rb") as file:
            for seed in range(worker, 100, 20):
                sock.sendall(request(seed=seed, model=models[seed % 4]))
                yield seed, read_answer(file)

    with ThreadPoolExecutor(20) as threads:
        answers = dict(answer for some in threads.map(lambda worker: list(one(worker)), range(20)) for answer in some)
    assert len(answers) == 100
    for seed, (status, _, body) in answers.items():
        assert status == 200, body
        answer = json.loads(body)
        assert answer["agon"][0]["seed"] == seed
        assert answer["model"] == models[seed % 4]
        assert len(answer["usage"]["stages"]) == (2, 2, 1, 1)[seed % 4]
        assert answer["choices"][0]["message"]["content"]
