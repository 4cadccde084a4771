"""Agon and cooperative exchange: vectors worked by hand, and who earns what."""

from __future__ import annotations

import pytest

# T1 and T2: c of the challenger, a of the drafter.
T1 = list(zip((1, 0, 1, 0), (0, 0, 1, 1), strict=True))
T2 = list(zip((1, 1, 0, 0, 1, 0, 0, 0), (1, 0, 0, 1, 1, 0, 1, 0), strict=True))


@pytest.mark.parametrize(
    ("vector", "cooperative", "agon"),
    [
        (T1, (2, 0, 2, 0), (3, 0, 2, 0)),
        (T2, (2, 2, 0, 0, 2, 0, 0, 0), (2, 3, 0, 0, 2, 0, 0, 0)),
    ],
)
def test_challenger_rewards_of_the_worked_vectors(make_match, rewards_of, vector, cooperative, agon):
    matches = [make_match(a, c, phi_a=0.0, phi_b=0.0) for c, a in vector]
    assert rewards_of("cooperative", matches)[1] == cooperative
    assert rewards_of("agon", matches)[1] == agon


def test_format_adds_to_both_players(make_match, rewards_of):
    # T3 with a = 0: r = 3 c + .5 phi -> 3.5, 3, .5, 0
    matches = [make_match(0, c, phi_a=1.0, phi_b=phi) for c, phi in ((1, 1.0), (1, 0.0), (0, 1.0), (0, 0.0))]
    drafts, challenges = rewards_of("agon", matches)
    assert challenges == (3.5, 3.0, 0.5, 0.0)
    assert drafts == (0.5, 0.5, 0.5, 0.5)


def test_a_drafter_earns_nothing_from_its_challenger(make_match, rewards_of):
    losing, winning = [make_match(0, 1), make_match(1, 1)], [make_match(0, 0), make_match(1, 0)]
    assert rewards_of("agon", losing)[0] == rewards_of("agon", winning)[0] == (0.5, 2.5)


@pytest.mark.parametrize(("draft", "empty"), [("error", False), ("truncated", True)])
def test_a_rival_without_verdict_or_summary_pays_no_bonus(make_match, rewards_of, draft, empty):
    assert rewards_of("agon", [make_match(draft, 1, empty=empty)])[1] == (2.5,)


@pytest.mark.parametrize("draft", ["wrong", "unparsed", "timeout"])
def test_every_kind_of_wrong_draft_pays_the_bonus(make_match, rewards_of, draft):
    assert rewards_of("agon", [make_match(draft, 1)])[1] == (3.5,)


@pytest.mark.parametrize("name", ["cooperative", "agon"])
def test_each_adapter_has_a_stream_of_its_own(make_match, streams_of, name):
    streams = streams_of(name, [make_match(0, 1, drafter="B", challenger="A")], step=1)
    assert [(stream.adapter, stream.role) for stream in streams] == [("B", "drafter"), ("A", "challenger")]
    for stream in streams:
        assert {attempt.adapter for group in stream.groups for attempt in group.attempts} == {stream.adapter}


def test_strata_say_whether_the_draft_was_right(make_match, streams_of):
    drafts, challenges = streams_of("agon", [make_match(0, 1), make_match(1, 0), make_match("error", 1)])
    assert drafts.groups[0].strata is None
    assert challenges.groups[0].strata == (0, 1, 0)
