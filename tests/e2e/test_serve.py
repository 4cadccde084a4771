from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import httpx
import pytest

PROBLEM = "12 7 5 = 24"


@contextmanager
def serving(*words, env=None):
    """Start `agon serve` on a free port; give the process and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "agon.cli.main", "serve", *map(str, words), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
    )
    try:
        line = process.stdout.readline()
        assert " at http://127.0.0.1:" in line, process.stderr.read()
        yield process, line.split(" at ")[1].split()[0]
    finally:
        process.kill()
        process.communicate()


def chat(url, **fields):
    body = {"messages": [{"role": "user", "content": PROBLEM}], "seed": 3, **fields}
    answer = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer


@pytest.fixture(scope="module")
def served(trained):
    with serving(trained, "--direction", "b-a") as (_, url):
        yield url


def test_a_served_pair_answers_as_solve_does(served, trained, agon, capsys):
    for model, direction in (("cascade", "b-a"), ("cascade-a-b", "a-b")):
        assert agon("solve", trained, PROBLEM, "--direction", direction, "--seed", "3", "--json") == 0
        solved = json.loads(capsys.readouterr().out)
        answer = chat(served, model=model, include_draft=True).json()
        (ours,) = answer["agon"]
        assert answer["choices"][0]["message"]["content"] == solved["challenger"]["text"]
        assert [stage["text"] for stage in ours["stages"]] == [
            solved[role]["text"] for role in ("drafter", "challenger")
        ]
        assert [stage["tokens"] for stage in ours["stages"]] == [
            solved[role]["tokens"] for role in ("drafter", "challenger")
        ]
        assert (ours["answer"], ours["verdict"], ours["summary"]) == (
            solved["answer"],
            solved["verdict"],
            solved["summary"],
        )
        assert ours["direction"] == direction


def test_a_stream_of_a_served_pair_adds_up_to_the_same_text(served):
    whole = chat(served, n=2).json()
    events = [line[6:] for line in chat(served, n=2, stream=True).text.split("\n\n") if line.startswith("data: ")]
    assert events.pop() == "[DONE]"
    texts = ["", ""]
    for chunk in map(json.loads, events):
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["delta"].get("content", "")
    assert texts == [choice["message"]["content"] for choice in whole["choices"]]


def test_the_logprobs_of_a_served_pair_stand_by_the_tokens_of_its_text(served):
    answer = chat(served, logprobs=True).json()
    (choice,) = answer["choices"]
    tokens = choice["logprobs"]["content"]
    assert "".join(token["token"] for token in tokens) == choice["message"]["content"]
    assert len(tokens) == answer["agon"][0]["stages"][-1]["tokens"]
    assert all(token["logprob"] <= 0 for token in tokens)


def test_bare_text_and_token_ids_are_continued_alike(served):
    def complete(prompt):
        body = {"model": "drafter", "prompt": prompt, "seed": 1, "max_tokens": 8}
        return httpx.post(f"{served}/v1/completions", json=body, timeout=60)

    by_text = complete("a 12 b 7 c 5 =24").json()
    assert by_text["usage"]["completion_tokens"] <= 8
    beyond = complete([10**6])
    assert beyond.status_code == 400
    assert beyond.json()["error"]["param"] == "prompt"


def test_the_arena_offers_the_runs_problems(served):
    assert httpx.get(served).text.startswith("<!doctype html>")
    page = httpx.get(f"{served}/arena/problems", params={"limit": 2}).json()
    assert page["total"] == 12
    assert len(page["problems"]) == 2


def test_a_signal_ends_a_served_run_and_a_key_guards_it(trained):
    with serving(trained, env={"AGON_API_KEY": "secret-key"}) as (process, url):
        assert httpx.get(f"{url}/health").json() == {"status": "ok"}
        assert httpx.get(f"{url}/v1/models").status_code == 401
        listed = httpx.get(f"{url}/v1/models", headers={"authorization": "Bearer secret-key"}).json()["data"]
        assert [model["id"] for model in listed] == ["cascade", "cascade-b-a", "drafter", "challenger", "base"]
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=30)
        assert process.returncode == 0
        assert "secret-key" not in log
        assert "direction a-b" in log
