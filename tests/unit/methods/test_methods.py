from __future__ import annotations

import pytest

from agon.errors import ConfigError
from agon.methods.base import StepView
from agon.methods.registry import method_named
from agon.records import METHODS, Attempt, Completion, Match, Problem, Prompt, Summary, Verdict
from agon.rewards.terms import RewardWeights

PAPER = RewardWeights()
PROBLEM = Problem(id="p", question="q", gold="2", task="t", verifier="exact")


def _attempt(role, adapter, outcome, phi):
    completion = Completion((1,), (-0.1,), "x", "stop", adapter, 0)
    return Attempt(role, adapter, Prompt((1,), "q"), completion, Verdict(outcome, 0.0), phi)


def _match(a, b, *, phi_a=1.0, phi_b=1.0, empty=False, drafter="A", challenger="B"):
    """A match whose draft has outcome a (0, 1 or a name) and whose challenge has outcome b."""
    name = {0: "wrong", 1: "correct"}
    return Match(
        PROBLEM,
        0,
        (_attempt("drafter", drafter, name.get(a, a), phi_a),),
        (Summary("s", is_empty=empty, has_leak=False, num_withheld=0),),
        _attempt("challenger", challenger, name.get(b, b), phi_b),
    )


def _rewards(method, matches, weights=PAPER):
    chosen = method_named(method)
    return [stream.groups[0].rewards for stream in chosen.streams([matches], StepView(0, 0, chosen.lineup(0), weights))]


# ALGORITHMS 12.7, T1 and T2: c of the challenger, a of the drafter.
T1 = list(zip((1, 0, 1, 0), (0, 0, 1, 1), strict=True))
T2 = list(zip((1, 1, 0, 0, 1, 0, 0, 0), (1, 0, 0, 1, 1, 0, 1, 0), strict=True))


@pytest.mark.parametrize(
    ("vector", "cooperative", "agon"),
    [
        (T1, (2, 0, 2, 0), (3, 0, 2, 0)),
        (T2, (2, 2, 0, 0, 2, 0, 0, 0), (2, 3, 0, 0, 2, 0, 0, 0)),
    ],
)
def test_challenger_rewards_of_the_worked_vectors(vector, cooperative, agon):
    matches = [_match(a, c, phi_a=0.0, phi_b=0.0) for c, a in vector]
    assert _rewards("cooperative", matches)[1] == cooperative
    assert _rewards("agon", matches)[1] == agon


def test_format_adds_to_both_players():
    # T3 with a = 0: r = 3 c + .5 phi -> 3.5, 3, .5, 0
    matches = [_match(0, c, phi_a=1.0, phi_b=phi) for c, phi in ((1, 1.0), (1, 0.0), (0, 1.0), (0, 0.0))]
    drafts, challenges = _rewards("agon", matches)
    assert challenges == (3.5, 3.0, 0.5, 0.0)
    assert drafts == (0.5, 0.5, 0.5, 0.5)


def test_a_drafter_earns_nothing_from_its_challenger():
    losing, winning = [_match(0, 1), _match(1, 1)], [_match(0, 0), _match(1, 0)]
    assert _rewards("agon", losing)[0] == _rewards("agon", winning)[0] == (0.5, 2.5)


@pytest.mark.parametrize(("draft", "empty"), [("error", False), ("truncated", True)])
def test_a_rival_without_verdict_or_summary_pays_no_bonus(draft, empty):
    assert _rewards("agon", [_match(draft, 1, empty=empty)])[1] == (2.5,)


@pytest.mark.parametrize("draft", ["wrong", "unparsed", "timeout"])
def test_every_kind_of_wrong_draft_pays_the_bonus(draft):
    assert _rewards("agon", [_match(draft, 1)])[1] == (3.5,)


@pytest.mark.parametrize("name", ["cooperative", "agon"])
def test_roles_swap_every_step_and_a_drafts_first(name):
    lineups = [method_named(name).lineup(step) for step in range(4)]
    assert [lineup.drafters for lineup in lineups] == [("A",), ("B",), ("A",), ("B",)]
    assert [lineup.challenger for lineup in lineups] == ["B", "A", "B", "A"]


@pytest.mark.parametrize("name", ["cooperative", "agon"])
def test_each_adapter_has_a_stream_of_its_own(name):
    method = method_named(name)
    lineup = method.lineup(1)
    streams = method.streams([[_match(0, 1, drafter="B", challenger="A")]], StepView(1, 0, lineup, PAPER))
    assert [(stream.adapter, stream.role) for stream in streams] == [("B", "drafter"), ("A", "challenger")]
    for stream in streams:
        assert {attempt.adapter for group in stream.groups for attempt in group.attempts} == {stream.adapter}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("group_size", [2, 8])
def test_every_method_samples_2n_rollouts_of_a_problem(name, group_size):
    method = method_named(name)
    assert method.matches_per_problem(group_size) * method.lineup(0).num_rollouts == 2 * group_size


def test_grpo_makes_one_group_of_2n_for_one_adapter():
    method = method_named("grpo")
    matches = [Match(PROBLEM, i, (_attempt("drafter", "A", "correct" if i % 2 else "wrong", 1.0),)) for i in range(4)]
    (stream,) = method.streams([matches], StepView(3, 0, method.lineup(3), PAPER))
    assert stream.adapter == "A"
    assert stream.groups[0].rewards == (0.5, 2.5, 0.5, 2.5)
    assert stream.num_rollouts == 4


def test_an_unknown_method_is_refused():
    with pytest.raises(ConfigError, match=r"'ppo'.*grpo"):
        method_named("ppo")
