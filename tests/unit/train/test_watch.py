from __future__ import annotations

from dataclasses import replace

import pytest

from agon.records import Lineup
from agon.train.watch import EVERY, PairWatch, pair_alarms

AB = Lineup(drafters=("A",), has_challenge=True, challenger="B")


def _answered(match, draft, challenge):
    """Give both stages an answer."""
    drafts = (replace(match.draft, verdict=replace(match.draft.verdict, answer=draft)),)
    return replace(
        match,
        drafts=drafts,
        challenge=replace(match.challenge, verdict=replace(match.challenge.verdict, answer=challenge)),
    )


@pytest.fixture
def copies(make_match):
    """A problem whose drafts are wrong, each in its own way, and whose challenges repeat them."""
    return [_answered(make_match("wrong", "wrong"), str(n), str(n)) for n in range(4)]


@pytest.fixture
def echoes(make_match):
    """A problem at which every answer is the same wrong one, read or not."""
    return [_answered(make_match("wrong", "wrong"), "7", "7") for _ in range(4)]


def test_repeating_what_was_read_is_copying(copies):
    (alarm,) = pair_alarms([copies] * 20, "a-b", seed=0)
    assert (alarm.name, alarm.values["copy"], alarm.values["blind"]) == ("copying", 1.0, 0.0)


def test_a_wrong_answer_that_comes_up_whatever_is_read_is_not(echoes):
    assert pair_alarms([echoes] * 20, "a-b", seed=0) == []


def test_being_wrong_after_right_drafts_and_right_after_wrong_ones_is_disagreeing(make_match):
    group = [make_match("correct", "wrong"), make_match("wrong", "correct")] * 2
    (alarm,) = pair_alarms([group] * 20, "b-a", seed=0)
    # The answer beside a right draft is the next match's, which read a wrong one and is right.
    assert (alarm.name, alarm.values["regression"], alarm.values["blind"]) == ("always-disagreeing", 1.0, 0.0)


def test_a_weak_challenger_is_not_disagreeing(make_match):
    group = [make_match("correct", "wrong"), make_match("wrong", "wrong")] * 2
    assert pair_alarms([group] * 20, "a-b", seed=0) == []


def test_it_is_said_once_for_each_direction_after_so_many_of_its_steps(copies):
    said: list[str] = []
    watch = PairWatch(said.append, seed=0)
    for step in range(2 * EVERY - 1):
        watch.see(AB if step % 2 == 0 else replace(AB, drafters=("B",), challenger="A"), [copies] * 4)
        assert len(said) == (1 if step == 2 * EVERY - 2 else 0)
    assert said == [
        "warning: copying, the last 10 steps of B after A: wrong answers that it reads about are repeated in 100% of matches "
        "(lower limit 91%), by 0% of its answers to other drafts of the same problems"
    ]
    for _ in range(3 * EVERY):
        watch.see(AB, [copies] * 4)
    assert len(said) == 1


def test_nothing_is_said_where_nobody_reads_the_draft_of_its_match(copies, make_match):
    said: list[str] = []
    watch = PairWatch(said.append, seed=0)
    for _ in range(2 * EVERY):
        watch.see(replace(AB, reads="hidden"), [copies] * 4)
        watch.see(Lineup(drafters=("A",)), [[make_match("wrong")] * 4])
        watch.see(AB, [copies[:1]])  # one match of a problem has none beside it
    assert said == []
