from __future__ import annotations

import socket

import pytest

from agon.cli.main import build_parser, main
from agon.cli.serve_endpoints import open_endpoints, wants_endpoints
from agon.records import Completion
from agon.serve.access import Access
from agon.tasks.typed import typed_problem

BOTH = ("--drafter", "http://a", "--challenger", "https://b/v1")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in ("AGON_API_KEY", "AGON_DRAFTER_KEY", "AGON_CHALLENGER_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def options(*words):
    return build_parser().parse_args(["serve", *words])


def test_a_run_or_two_endpoints_are_served():
    assert not wants_endpoints(
        options("runs/x", "--direction", "b-a", "--checkpoint", "0", "--set", "rollout.max_rows=4")
    )
    assert wants_endpoints(options(*BOTH, "--answer-style", "code", "--drafter-model", "m", "--max-tokens", "9"))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "nothing to serve was named"),
        (["--drafter-model", "m"], "nothing to serve was named"),
        (["runs/x", *BOTH], "--drafter is for two endpoints, but a run was named"),
        (["runs/x", "--max-tokens", "9"], "--max-tokens is for two endpoints, but a run was named"),
        (["runs/x", "--answer-style", "tags"], "--answer-style is for two endpoints, but a run was named"),
        (["runs/x", "--wording", "plain-v1"], "--wording is for two endpoints, but a run was named"),
        (["runs/x", "--withholding", "mark"], "--withholding is for two endpoints, but a run was named"),
        ([*BOTH, "--direction", "a-b"], "--direction is for a run, but two endpoints were named"),
        ([*BOTH, "--checkpoint", "0"], "--checkpoint is for a run, but two endpoints were named"),
        ([*BOTH, "--set", "a.b=1"], "--set is for a run, but two endpoints were named"),
        (BOTH[:2], "--challenger is missing: give its URL"),
        (BOTH[2:], "--drafter is missing: give its URL"),
        ([*BOTH, "--max-tokens", "0"], "--max-tokens is 0"),
        (["--drafter", "host:80", *BOTH[2:]], "--drafter is 'host:80', which is no address"),
        (["--drafter", "http://me:pw@a", *BOTH[2:]], "--drafter is 'http://[redacted]@a', with a name or password"),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_line(words, says, capsys):
    assert main(["serve", *words, "--port", "0"]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"agon: {says}")
    assert told.count("\n") == 1


def test_the_options_reach_the_service():
    with open_endpoints(options(*BOTH), Access()) as opened:
        offer = opened.service.offer
        assert (offer.style, offer.sampling.max_draft_tokens, offer.sampling.max_challenge_tokens) == (
            "boxed",
            4096,
            4096,
        )
        assert offer.takes_conversations
        assert offer.vocabulary is None
        assert (offer.task.wording, offer.task.withholding) == ("plain-v1", "mark")
        assert opened.notes == ()
    with open_endpoints(options(*BOTH, "--answer-style", "tags", "--max-tokens", "9"), Access(max_running=2)) as opened:
        assert (opened.service.offer.style, opened.service.offer.sampling.max_draft_tokens) == ("tags", 9)


def test_wording_and_withholding_reach_prompts_and_summaries():
    with open_endpoints(options(*BOTH, "--wording", "plain-v3", "--withholding", "drop"), Access()) as opened:
        offer = opened.service.offer
        problem, _ = typed_problem(offer.task, "What is 6 times 7?", None)
        said = Completion((), (), "Six sevens.\n\nThe answer is \\boxed{42}.", "stop", "A", 0)
        summary = offer.summarizer.summarize(problem, said, max_tokens=100)
        assert summary.text == "Six sevens."
        challenge = offer.prompts.challenge(problem, [summary]).text
        assert challenge.endswith(f"The rival's summary:\nSix sevens.\n\n{offer.prompts.draft(problem).text}")


def test_the_wording_of_the_embedded_base_is_not_offered(capsys):
    with pytest.raises(SystemExit) as raised:
        main(["serve", *BOTH, "--wording", "symbols-v1"])
    assert raised.value.code == 2
    assert "'plain-v1', 'plain-v2', 'plain-v3'" in capsys.readouterr().err


def test_a_key_that_travels_unencrypted_is_noted(monkeypatch):
    monkeypatch.setenv("AGON_DRAFTER_KEY", "key-d")
    with open_endpoints(options(*BOTH), Access()) as opened:
        assert opened.notes == (
            "the drafter's key travels unencrypted to http://a/v1: take https if the endpoint has it",
        )


def test_an_endpoint_that_is_not_there_ends_the_start(capsys):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        assert main(["serve", "--drafter", url, "--challenger", url, "--port", "0"]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"agon: the drafter's endpoint {url}/v1 cannot be reached: ")
    assert told.count("\n") == 1
