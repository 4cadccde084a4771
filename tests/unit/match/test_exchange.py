from __future__ import annotations

import pytest

from agon.match.exchange import exchange_of
from agon.match.lineups import lineup_for
from agon.match.play import Sampling, play
from agon.records import Lineup, Problem, Verdict

SAMPLING = Sampling(max_draft_tokens=200, max_challenge_tokens=200, max_summary_tokens=100)
ONE = Problem(id="p1", question="1+1", gold="2", task="t", verifier="exact")
CASCADE = Lineup(drafters=("A",), has_challenge=True, challenger="B")


def _script(prompt, request):
    answer = "2" if "|" in prompt else str(request.seed % 3)
    return f"<think>hm</think>path{request.seed % 1000}<answer>{answer}</answer>"


def _exchange(session, lineup, *, samples=1, seed=0):
    return exchange_of(
        ONE,
        lineup,
        prompts=session.prompts,
        summarizer=session.summarizer,
        style=session.style,
        samples=samples,
        sampling=SAMPLING,
        seed=seed,
        stream=("test",),
    )


def _drive(session, exchange, *, newest_first=False):
    """Sample turn by turn, the newest or the oldest of those that are open first, and return the verdicts."""
    open_turns = list(enumerate(exchange.begin()))
    verdicts = {}
    while open_turns:
        number, turn = open_turns.pop(-1 if newest_first else 0)
        (completion,) = session.engine.generate([turn.request])
        (verdicts[number],) = session.verifiers.verify([(turn.problem, completion)], session.style)
        before = len(exchange.turns)
        open_turns += list(enumerate(exchange.end(number, completion), before))
    return verdicts


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize(
    "protocol", ["cascade", "single", "moa", "majority", "likeliest", "empty-draft", "answer-visible", "selective"]
)
def test_turns_taken_one_by_one_in_any_order_make_the_matches_that_play_makes(make_session, protocol, newest_first):
    lineup = lineup_for(protocol)
    session, _ = make_session(_script)
    (expected,) = play(session, [ONE], lineup, samples=3, sampling=SAMPLING, seed=5, stream=("test",))
    session, _ = make_session(_script)
    exchange = _exchange(session, lineup, samples=3, seed=5)
    verdicts = _drive(session, exchange, newest_first=newest_first)
    assert [exchange.match(sample, verdicts) for sample in range(3)] == expected


def test_a_challenge_is_asked_for_when_its_own_draft_has_ended_and_not_before(make_session):
    session, engine = make_session(_script)
    exchange = _exchange(session, CASCADE, samples=2)
    drafts = exchange.begin()
    assert [(turn.role, turn.place) for turn in drafts] == [("drafter", 0), ("drafter", 1)]
    (completion,) = engine.generate([drafts[1].request])
    (challenge,) = exchange.end(1, completion)
    assert (challenge.role, challenge.place, challenge.request.adapter) == ("challenger", 1, "B")
    assert list(exchange.shown) == [1]
    (answer,) = engine.generate([challenge.request])
    assert exchange.end(2, answer) == []


def test_a_draft_that_nobody_doubts_is_not_challenged(make_session):
    session, engine = make_session(_script)
    lineup = lineup_for("selective", doubt="likelihood", threshold=-1.0)
    exchange = _exchange(session, lineup)
    (draft,) = exchange.begin()
    (completion,) = engine.generate([draft.request])
    # Every token of the scripted engine has logprob -.5, which is not below -1.
    assert exchange.end(0, completion) == []
    match = exchange.match(0, {0: Verdict("correct", 1.0)})
    assert match.challenge is None
    assert match.final is match.draft


@pytest.mark.parametrize("protocol", ["cascade", "moa", "single", "selective"])
def test_a_match_can_be_had_as_soon_as_it_is_over(make_session, protocol):
    lineup = lineup_for(protocol, **({"threshold": -1.0} if protocol == "selective" else {}))
    session, engine = make_session(_script)
    (expected,) = play(session, [ONE], lineup, samples=2, sampling=SAMPLING, seed=5, stream=("test",))
    exchange = _exchange(session, lineup, samples=2, seed=5)
    waiting = [number for number, turn in enumerate(exchange.begin()) if turn.place == 1]
    verdicts = {}
    while waiting:
        assert not exchange.is_over(1)
        number = waiting.pop(0)
        turn = exchange.turns[number]
        (completion,) = engine.generate([turn.request])
        (verdicts[number],) = session.verifiers.verify([(turn.problem, completion)], session.style)
        before = len(exchange.turns)
        waiting += range(before, before + len(exchange.end(number, completion)))
    assert exchange.is_over(1)
    assert not exchange.is_over(0)
    assert sorted(verdicts) == exchange.turns_of(1)
    assert exchange.match(1, verdicts) == expected[1]
