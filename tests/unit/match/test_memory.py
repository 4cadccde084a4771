from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from agon.errors import EngineError
from agon.match.lineups import lineup_for
from agon.match.memory import RememberingEngine
from agon.match.play import Sampling, play
from agon.records import Lineup, Problem, Request

SAMPLING = Sampling(max_draft_tokens=60, max_challenge_tokens=80, max_summary_tokens=50)
PROBLEMS = [Problem(id=f"p{n}", question=f"{n}+{n}", gold=str(2 * n), task="t", verifier="exact") for n in (1, 2)]
CASCADE = lineup_for("cascade")


def _says(prompt, request):
    return f"<think>hm</think>{request.seed % 9973}<answer>7</answer>"


def _run(session, lineup):
    return play(session, PROBLEMS, lineup, samples=2, sampling=SAMPLING, seed=0, stream=("test",))


def test_protocols_that_share_their_drafts_sample_them_once(make_session):
    session, engine = make_session(_says)
    plain = [_run(session, lineup) for lineup in (Lineup(("A",)), CASCADE, replace(CASCADE, reads="placebo"))]
    engine.requests.clear()
    remembering = session.remembering()
    again = [_run(remembering, lineup) for lineup in (Lineup(("A",)), CASCADE, replace(CASCADE, reads="placebo"))]
    assert again == plain
    # four drafts once, and four challenges of each cascade; 4 + 8 + 8 without memory
    assert len(engine.requests) == 4 + 4 + 4


def test_a_selective_cascade_samples_nothing_that_single_and_cascade_have(make_session):
    session, engine = make_session(_says, logprob=lambda request: -(request.seed % 7) / 8)
    remembering = session.remembering()
    _run(remembering, CASCADE)
    engine.requests.clear()
    _run(remembering, lineup_for("selective", threshold=-0.4))
    assert engine.requests == []


def test_equal_requests_of_one_batch_are_sampled_once_and_each_is_told_of(make_session):
    _, engine = make_session(_says)
    memory, told = RememberingEngine(engine), []
    one, two = Request((1, 2), "A", 60, seed=5), Request((1, 2), "A", 60, seed=6)
    first = memory.generate([one, two, one], lambda index, completion: told.append((index, completion.text)))
    assert len(engine.requests) == 2
    assert first[0] is first[2]
    assert sorted(told) == [(index, completion.text) for index, completion in enumerate(first)]
    # anything that differs is another request
    others = [replace(one, prompt_ids=(1, 3)), replace(one, adapter="B"), replace(one, temperature=0.5)]
    memory.generate(others)
    assert len(engine.requests) == 5


def test_another_cap_samples_again_only_what_it_would_have_ended_elsewhere(make_session):
    # With its end a text of 59 characters has 60 tokens, one of 9 has 10.
    _, engine = make_session(lambda prompt, request: "x" * (59 if request.seed else 9))
    memory = RememberingEngine(engine)
    long, short = Request((1,), "A", 50, seed=1), Request((1,), "A", 50, seed=0)
    cut, whole = memory.generate([long, short])
    assert (cut.is_truncated, whole.is_truncated) == (True, False)
    engine.requests.clear()
    doubled = memory.generate([replace(long, max_tokens=100), replace(short, max_tokens=100)])
    assert engine.requests == [replace(long, max_tokens=100)]
    assert [completion.num_tokens for completion in doubled] == [60, 10]
    assert doubled[1] is whole
    # A cap that it just fits under gives it as well; one token less does not, and neither is mixed up with what was cut.
    assert memory.generate([replace(short, max_tokens=10), replace(long, max_tokens=60)]) == [whole, doubled[0]]
    assert memory.generate([long]) == [cut]
    engine.requests.clear()
    assert memory.generate([replace(short, max_tokens=9)])[0].is_truncated
    assert len(engine.requests) == 1


def test_what_is_remembered_costs_what_it_cost(make_session, monkeypatch):
    _, engine = make_session(lambda prompt, request: "x" * (9 if request.seed else 29))
    clock = iter([10.0, 18.0])
    monkeypatch.setattr("agon.match.memory.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    memory = RememberingEngine(engine)
    short, long = Request((1,), "A", 60, seed=1), Request((1,), "A", 60, seed=0)
    memory.generate([short, long])
    assert memory.recalled_seconds == 0.0
    memory.generate([short])
    # 8 s for 10 + 30 tokens (the end of the text is one): 0.2 s a token
    assert memory.recalled_seconds == pytest.approx(2.0)


def test_remembering_twice_is_remembering_once(make_session):
    session, _ = make_session(_says)
    remembering = session.remembering()
    assert remembering.remembering() is remembering
    assert remembering.sampling_seconds == 0.0


def test_an_unusable_completion_is_not_remembered(make_session):
    session, _ = make_session(_says, faults={1: "nan_logprob"})
    remembering = session.remembering()
    with pytest.raises(EngineError, match="logprob nan"):
        _run(remembering, CASCADE)
    # the fault was that of the second request of the engine's life: asked again, it is sampled again
    assert len(_run(remembering, CASCADE)) == 2


def test_an_adapter_that_has_learned_is_not_answered_for_from_memory(make_session):
    session, _ = make_session(_says)
    remembering = session.remembering()
    completions = remembering.engine.generate([Request((1,), "A", 60, seed=1)])
    assert completions[0].adapter_version == 0
    monkey = type("Pair", (), {"names": ("A", "B"), "version": lambda self, name: 1})()
    remembering.pair = monkey
    with pytest.raises(EngineError, match="version 0 of adapter"):
        _run(remembering, CASCADE)
