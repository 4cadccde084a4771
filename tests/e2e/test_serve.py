from __future__ import annotations

import json
import signal
import socket
from functools import partial

import httpx

PROBLEM = "12 7 5 = 24"
# Patient: the machine may be busy.
get = partial(httpx.get, timeout=60)


def chat(url, **fields):
    body = {"messages": [{"role": "user", "content": PROBLEM}], "seed": 3, **fields}
    answer = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer


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
    assert get(served).text.startswith("<!doctype html>")
    page = get(f"{served}/arena/problems", params={"limit": 2}).json()
    assert page["total"] == 12
    assert len(page["problems"]) == 2


def test_a_stream_that_runs_at_the_signal_is_finished_and_the_key_is_nowhere(serving, trained):
    key = {"authorization": "Bearer secret-key"}
    with serving(trained, "--grace", "100", env={"AGON_API_KEY": "secret-key"}) as (process, url, log):
        assert get(f"{url}/health").json() == {"status": "ok"}
        for path in ("/", "/v1/models", "/metrics", "/arena/problems", "/arena/static/main.js", "/none"):
            assert get(f"{url}{path}").status_code == 401, path
        assert get(url, auth=("anybody", "secret-key")).text.startswith("<!doctype html>")
        listed = get(f"{url}/v1/models", headers=key).json()["data"]
        assert [model["id"] for model in listed] == [
            "cascade",
            "cascade-b-a",
            "likeliest",
            "drafter",
            "challenger",
            "base",
        ]
        body = {"model": "base", "prompt": "12", "n": 8, "max_tokens": 240, "temperature": 2, "seed": 3, "stream": True}
        with httpx.stream("POST", f"{url}/v1/completions", json=body, headers=key, timeout=60) as answer:
            events = (line for line in answer.iter_lines() if line)
            first = json.loads(next(events)[6:])
            process.send_signal(signal.SIGTERM)
            rest = list(events)
        assert first["choices"][0]["finish_reason"] is None
        assert rest.pop() == "data: [DONE]"
        reasons = [json.loads(line[6:])["choices"][0]["finish_reason"] for line in rest]
        assert len([reason for reason in reasons if reason]) == 8
        assert process.wait(100) == 0
        told = log.read_text() + process.stdout.read() + " ".join(map(str, process.args))
    assert "direction a-b" in told
    assert "POST /v1/completions 200" in told
    assert "secret-key" not in told


def test_a_port_that_is_taken_and_a_run_that_is_not_there_are_told_in_one_line(agon, trained, tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert agon("serve", trained, "--port", str(port)) == 2
    assert capsys.readouterr().err == (
        f"agon: port {port} of 127.0.0.1 is taken: give another --port, or --port 0 for a free one\n"
    )
    assert agon("serve", tmp_path / "none") != 0
    (line,) = capsys.readouterr().err.splitlines()
    assert "none" in line
    assert agon("serve") == 2
    assert "nothing to serve was named" in capsys.readouterr().err
