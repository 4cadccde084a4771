from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from agon.evaluation.alarms import always_disagreeing, copying, dead_adapter, teacher_student
from agon.evaluation.exchanged import exchanged
from agon.evaluation.singles import compare_singles
from agon.model.divergence import Updates


@pytest.fixture
def played(table):
    """n matches whose drafts are right for a share: `challenge` and `alone` turn a draft's answer and a number into theirs."""

    def play(challenge, *, alone, share_right=0.5, n=60):
        drafts = ["1" if i < share_right * n else f"w{i % 7}" for i in range(n)]
        return exchanged(
            *table(*((draft, challenge(draft, i), alone(draft, i)) for i, draft in enumerate(drafts))), seed=0
        )

    return play


def even(draft, i):
    """An independent answer: right every other time."""
    return "1" if i % 2 else f"v{i}"


def test_a_challenger_that_repeats_what_it_reads_sounds_the_alarm_of_copying(played):
    found = played(lambda draft, i: draft, alone=even)
    alarm = copying("a-b", found)
    assert (alarm.name, alarm.about) == ("copying", "a-b")
    # 30 of 30: the exact lower limit is .025^(1/30)
    assert alarm.values["low"] == pytest.approx(0.025 ** (1 / 30))
    assert "in 100% [88%, 100%] of 30 matches (0% without reading)" in alarm.message
    assert always_disagreeing("a-b", found) is None
    assert found.discernment == 0.5


def test_one_wrong_answer_that_everybody_gives_is_no_copying(played):
    # The challenger gives the draft's wrong answer also where it reads nothing.
    same = lambda draft, i: draft  # noqa: E731
    assert copying("a-b", played(same, alone=same)) is None


def test_a_third_of_answers_repeated_is_no_copying(played):
    assert copying("a-b", played(lambda draft, i: draft if i % 3 == 0 else even(draft, i), alone=even)) is None


def test_a_few_copies_of_a_few_are_no_alarm_yet(played):
    # 3 of 3: the exact lower limit is .29.
    assert copying("a-b", played(lambda draft, i: draft, alone=even, share_right=0.5, n=6)) is None


def test_a_challenger_that_always_objects_to_drafts_that_are_mostly_right_sounds_the_alarm(played):
    found = played(lambda draft, i: f"not {draft}", alone=even, share_right=0.8)
    alarm = always_disagreeing("b-a", found)
    assert (alarm.name, alarm.about) == ("always-disagreeing", "b-a")
    assert alarm.values["regression"] == 1.0
    assert copying("b-a", found) is None
    assert found.discernment == 0.5


def test_a_challenger_that_is_merely_weak_does_not_object(played):
    # Wrong after 80 % of right drafts, and as often without reading them.
    weak = lambda draft, i: "1" if i % 5 == 0 else f"v{i}"  # noqa: E731
    found = played(weak, alone=weak)
    assert found.regression.rate == pytest.approx(0.8)
    assert always_disagreeing("a-b", found) is None


def test_a_good_challenger_sounds_no_alarm(played):
    found = played(lambda draft, i: "1" if i % 6 else f"v{i}", alone=even)
    assert copying("a-b", found) is None
    assert always_disagreeing("a-b", found) is None


def test_no_matches_to_count_are_no_alarm(singles, table):
    assert copying("a-b", exchanged(*table(("1", "1", "1")), seed=0)) is None
    assert always_disagreeing("a-b", exchanged(*table(("7", "1", "1")), seed=0)) is None


@pytest.fixture
def singles(answers):
    """Two adapters' chances on each problem -> the difference and the gain that their answers show, two samples each."""

    def make(*chances):
        rng = np.random.default_rng(0)
        drawn = [(rng.random((len(of_one), 2)) < np.asarray(of_one)[:, None]).tolist() for of_one in chances]
        out = compare_singles(dict(zip("AB", map(answers, drawn), strict=True)), seed=0)
        return out.strength.difference, out.union.gain_over_stronger

    return make


HARD = np.random.default_rng(1).random(200)


def test_a_student_that_fails_wherever_its_teacher_may_fail_sounds_the_alarm(singles):
    # One ranking of problems; the student is right half as often on each.
    alarm = teacher_student(*singles(HARD, HARD / 2))
    assert (alarm.name, alarm.about) == ("teacher-student", "B")
    assert alarm.values["difference"] < -0.1
    assert teacher_student(*singles(HARD / 2, HARD)).about == "A"


def test_a_weaker_adapter_with_blind_spots_of_its_own_is_no_student(singles):
    # A is right on the first 120 of 200 problems, B on the last 80: .6 and .4, and together all.
    first = np.array([1.0] * 120 + [0.0] * 80)
    assert teacher_student(*singles(first, 1 - first)) is None


def test_two_equal_adapters_are_no_teacher_and_student(singles):
    assert teacher_student(*singles(HARD, HARD)) is None


def test_a_gap_that_may_be_chance_is_none(singles):
    assert teacher_student(*singles(HARD[:8], HARD[:8] / 2)) is None


ALIVE = Updates(1.3, 0.2, 1.9, 2.0, None, None)


def test_an_adapter_without_an_update_is_dead():
    (alarm,) = dead_adapter(replace(ALIVE, norm_first=0.0), {"A": 0.0, "B": 0.07})
    assert (alarm.name, alarm.about) == ("dead-adapter", "A")
    assert alarm.values["norm_ratio"] == 0.0


def test_an_adapter_whose_update_changes_no_answer_is_dead():
    (alarm,) = dead_adapter(ALIVE, {"A": 0.07, "B": 1e-7})
    assert alarm.about == "B"


def test_two_untrained_adapters_are_both_dead():
    assert len(dead_adapter(replace(ALIVE, norm_first=0.0, norm_second=0.0), {"A": 0.0, "B": 0.0})) == 2


def test_an_adapter_of_half_the_size_is_alive():
    assert dead_adapter(replace(ALIVE, norm_first=1.0), {"A": 0.01, "B": 0.07}) == []
    # What noise of the usual KL target starts from, 1e-3 nats a token, is no dead adapter.
    assert dead_adapter(ALIVE, {"A": 1e-3, "B": 0.07}) == []


def test_an_alarm_turns_into_plain_json():
    (alarm,) = dead_adapter(replace(ALIVE, norm_first=0.0), {"A": 0.0, "B": 0.07})
    assert set(alarm.to_json()) == {"name", "about", "message", "values"}
