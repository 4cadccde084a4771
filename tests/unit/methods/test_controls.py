"""The controls of Agon: each changes one thing, and these tests say which."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agon.methods.base import Snapshot
from agon.methods.registry import method_named
from agon.rewards.terms import RewardWeights

PAIRS = [(0, 1), (1, 1), (1, 0), (0, 1)]  # (draft, challenge)
# Eq. 3 with format .5: 2c + c(1-a) + .5
AGON = (3.5, 2.5, 0.5, 3.5)
COOPERATIVE = (2.5, 2.5, 0.5, 2.5)


@pytest.fixture
def matches(make_match):
    return [make_match(a, b, sample=i) for i, (a, b) in enumerate(PAIRS)]


@pytest.mark.parametrize("name", ["agon", "answer-visible", "hidden", "fixed-roles", "self-refine-conversion"])
def test_controls_of_the_line_up_keep_agons_rewards(matches, rewards_of, name):
    assert rewards_of(name, matches) == [(0.5, 2.5, 2.5, 0.5), AGON]


def test_independent_learners_are_paid_for_their_own_answers_alone_each_in_a_stream_of_its_own(matches, streams_of):
    streams = streams_of("independent", matches)
    assert [(stream.adapter, stream.role) for stream in streams] == [("A", "drafter"), ("B", "challenger")]
    assert [stream.groups[0].rewards for stream in streams] == [(0.5, 2.5, 2.5, 0.5), COOPERATIVE]


@pytest.mark.parametrize("name", ["frozen-opponent", "past-opponent"])
def test_the_drafts_of_a_frozen_rival_are_not_learned_from(matches, streams_of, name):
    (stream,) = streams_of(name, matches)
    assert (stream.adapter, stream.role) == ("B", "challenger")
    assert stream.groups[0].rewards == AGON


def test_self_refinement_trains_one_adapter_in_both_roles(matches, rewards_of, streams_of):
    assert rewards_of("self-refine", matches)[1] == COOPERATIVE
    streams = streams_of("self-refine", matches)
    assert [(stream.adapter, stream.role) for stream in streams] == [("A", "drafter"), ("A", "challenger")]
    assert method_named("self-refine").adapters == ("A",)


def test_a_permuted_bonus_is_paid_over_the_next_draft(matches, rewards_of):
    # rivals are the drafts 1, 2, 3, 0 = right, right, wrong, wrong; challenges 0, 1 and 3 are right
    assert rewards_of("permuted", matches)[1] == (2.5, 2.5, 0.5, 3.5)


def test_a_permuted_bonus_asks_whether_the_next_draft_can_be_beaten(make_match, rewards_of):
    matches = [make_match(1, 1), make_match("truncated", 1, empty=True)]
    assert rewards_of("permuted", matches)[1] == (2.5, 2.5)


@pytest.mark.parametrize("name", ["shared-hidden", "shared-visible"])
@pytest.mark.parametrize(("first", "expected"), [(0, (3.5, 3.5, 0.5, 3.5)), (1, (2.5, 2.5, 0.5, 2.5))])
def test_a_shared_rival_is_the_first_draft(make_match, rewards_of, name, first, expected):
    matches = [make_match(a, b) for a, b in [(first, 1), *PAIRS[1:]]]
    assert rewards_of(name, matches)[1] == expected


def test_strata_go_by_the_draft_that_was_read(matches, streams_of):
    assert streams_of("hidden", matches)[1].groups[0].strata == (0, 1, 1, 0)
    assert streams_of("permuted", matches)[1].groups[0].strata == (0, 1, 1, 0)
    assert streams_of("shared-visible", matches)[1].groups[0].strata == (0, 0, 0, 0)


def test_a_truncated_draft_that_nobody_reads_is_no_rival_either(make_match, rewards_of):
    match = make_match("truncated", 1)
    completion = replace(match.draft.completion, stop_reason="length")
    unread = replace(match, drafts=(replace(match.draft, completion=completion),), summaries=())
    assert rewards_of("hidden", [unread])[1] == (2.5,)
    assert rewards_of("hidden", [replace(make_match(0, 1), summaries=())])[1] == (3.5,)


@pytest.mark.parametrize(
    ("name", "reads", "shows_answer"),
    [
        ("agon", "own", False),
        ("permuted", "own", False),
        ("answer-visible", "own", True),
        ("shared-hidden", "hidden", False),
        ("shared-visible", "shared", False),
        ("hidden", "hidden", False),
        ("independent", "hidden", False),
    ],
)
def test_what_challengers_read(name, reads, shows_answer):
    lineup = method_named(name).lineup(0)
    assert (lineup.reads, lineup.shows_answer) == (reads, shows_answer)


ROTATING = [
    *("cooperative", "independent", "agon", "margin", "permuted"),
    *("shared-hidden", "hidden", "tie-break", "random-reward"),
]


@pytest.mark.parametrize("name", ROTATING)
def test_roles_swap_every_step_and_a_drafts_first(name):
    lineups = [method_named(name).lineup(step) for step in range(4)]
    assert [lineup.drafters for lineup in lineups] == [("A",), ("B",), ("A",), ("B",)]
    assert [lineup.challenger for lineup in lineups] == ["B", "A", "B", "A"]


@pytest.mark.parametrize("name", ["fixed-roles", "frozen-opponent"])
def test_fixed_roles_never_swap(name):
    lineups = [method_named(name).lineup(step) for step in range(4)]
    assert {(lineup.drafters, lineup.challenger) for lineup in lineups} == {(("A",), "B")}


def test_a_past_rival_is_a_copy_renewed_every_ten_steps():
    method = method_named("past-opponent")
    lineups = [method.lineup(step) for step in range(3)]
    assert [lineup.drafters for lineup in lineups] == [("past-A",), ("past-B",), ("past-A",)]
    assert [lineup.challenger for lineup in lineups] == ["B", "A", "B"]
    renewed = [step for step in range(21) if method.snapshots(step)]
    assert renewed == [0, 10, 20]
    assert method.snapshots(10) == (Snapshot("past-A", "A"), Snapshot("past-B", "B"))


def test_the_margin_is_worth_a_right_answer_and_leaves_format_alone(matches, rewards_of):
    # 2 (c - a) + .5: 2, 0, -2, 2
    assert rewards_of("margin", matches)[1] == (2.5, 0.5, -1.5, 2.5)


@pytest.mark.parametrize(("draft", "empty"), [("error", False), ("truncated", True)])
def test_a_rival_that_cannot_be_beaten_takes_nothing_from_the_margin(make_match, rewards_of, draft, empty):
    assert rewards_of("margin", [make_match(draft, 1, empty=empty)])[1] == (2.5,)


def test_a_right_draft_with_nothing_left_to_show_still_counts_for_the_margin(make_match, rewards_of):
    # Withholding empties a summary that was nothing but the answer: 2 (c - a) + .5 = .5 and -1.5, as if it had been read.
    matches = [make_match(1, 1, empty=True), make_match(1, 0, empty=True)]
    assert rewards_of("margin", matches)[1] == (0.5, -1.5)


@pytest.mark.parametrize(
    ("a", "b", "tokens", "extra"),
    [
        (1, 1, (5, 4), 0.25),  # both right, the challenge shorter
        (1, 1, (5, 5), 0.0),
        (1, 1, (4, 5), 0.0),
        (0, 1, (5, 4), 0.0),
        (1, 0, (5, 4), 0.0),
    ],
)
def test_the_tie_break_pays_a_shorter_challenge_where_both_are_right(make_match, rewards_of, a, b, tokens, extra):
    match = make_match(a, b, tokens=tokens)
    plain = rewards_of("agon", [match])[1][0]
    assert rewards_of("tie-break", [match], RewardWeights(tie_break=0.25))[1] == (plain + extra,)


def test_a_larger_bonus_is_a_weight(matches, rewards_of):
    assert rewards_of("agon", matches, RewardWeights(conversion=3.0))[1] == (5.5, 2.5, 0.5, 5.5)
