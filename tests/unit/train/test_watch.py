from __future__ import annotations

from dataclasses import replace

import pytest

from agon.config import AlarmSettings
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


def test_each_direction_is_looked_at_after_so_many_of_its_steps(copies):
    watch = PairWatch(AlarmSettings(), seed=0)
    found = [
        watch.see(step, AB if step % 2 == 0 else replace(AB, drafters=("B",), challenger="A"), [copies] * 4)
        for step in range(2 * EVERY)
    ]
    assert [len(alarms) for alarms in found] == [0] * (2 * EVERY - 2) + [1, 1]
    ((alarm,), (other,)) = found[-2:]
    assert str(alarm) == (
        "copying, B after A since step 0: wrong answers that it reads about are repeated in 100% of matches (lower limit 91%), "
        "by 0% of its answers to other drafts of the same problems"
    )
    assert (alarm.step, alarm.mode, alarm.metric, alarm.value, alarm.threshold) == (
        18,
        "warn",
        "match/copy_rate",
        1.0,
        0.5,
    )
    assert (other.about, other.since, other.step) == ("A after B", 1, 19)


@pytest.mark.parametrize(("mode", "expected"), [("off", []), ("stop", ["stop"])])
def test_an_alarm_on_a_pair_can_be_switched(copies, mode, expected):
    watch = PairWatch(AlarmSettings(copying=mode), seed=0)
    found = [alarm.mode for step in range(EVERY) for alarm in watch.see(step, AB, [copies] * 4)]
    assert found == expected


def test_nothing_is_found_where_nobody_reads_the_draft_of_its_match(copies, make_match):
    watch = PairWatch(AlarmSettings(), seed=0)
    for step in range(2 * EVERY):
        assert watch.see(step, replace(AB, reads="hidden"), [copies] * 4) == []
        assert watch.see(step, Lineup(drafters=("A",)), [[make_match("wrong")] * 4]) == []
        assert watch.see(step, AB, [copies[:1]]) == []  # one match of a problem has none beside it
