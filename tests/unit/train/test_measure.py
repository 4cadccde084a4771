from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agon.config import TrainSettings
from agon.learner.report import Tally
from agon.methods.base import StepView
from agon.methods.registry import method_named
from agon.metrics import check_names
from agon.rewards.terms import RewardWeights
from agon.train import measure
from agon.train.measure import bonus_effective_fraction, metrics_row
from agon.train.state import START, Progress
from agon.train.update import Learned, credit
from agon.train.wave import Played

PAPER = RewardWeights()
PAIR: Any = None


@pytest.fixture(autouse=True)
def _distance(monkeypatch):
    monkeypatch.setattr(measure, "update_distance", lambda pair: 1.25)


def _view(method, step=0):
    return StepView(step, 0, method_named(method).lineup(step), PAPER)


def _row(name, kept, discarded=(), *, before=START, step=0, **train):
    method, own = method_named(name), TrainSettings(method=name, group_size=2, problems_per_step=2, steps=10, **train)
    played, view = Played(list(kept), list(discarded)), _view(name, step)
    report = Tally(learning_rate=1.0).report()
    learned = [Learned(stream, credit(stream, method, own), report) for stream in method.streams(played.kept, view)]
    row = metrics_row(
        view, played, learned, method=method, own=own, pair=PAIR, before=before, after=played.after(before)
    )
    check_names(row)
    return row


def _fraction(name, groups, **train):
    method, own = method_named(name), TrainSettings(**train)
    stream = next(stream for stream in method.streams(groups, _view(name)) if stream.role == "challenger")
    return bonus_effective_fraction(stream, credit(stream, method, own).credit, method, own=own, weights=PAPER)


def test_the_bonus_is_felt_only_where_outcomes_and_rivals_vary(make_match):
    groups = [
        [make_match("wrong", "correct"), make_match("correct", "correct")],  # all right: nothing
        [make_match("wrong", "wrong"), make_match("correct", "wrong")],  # all wrong: nothing
        [make_match("wrong", "correct"), make_match("wrong", "wrong")],  # one rival for all: std cancels it
        [make_match("wrong", "correct"), make_match("correct", "correct"), make_match("correct", "wrong")],  # felt
    ]
    assert _fraction("agon", groups) == 1 / 4


def test_cooperative_groups_never_feel_a_bonus(make_match):
    groups = [[make_match("wrong", "correct"), make_match("correct", "correct"), make_match("correct", "wrong")]]
    assert _fraction("cooperative", groups) == 0.0


def test_a_bonus_for_coins_is_compared_with_exchange_for_the_same_coins(make_match):
    # Without a bonus the two are alike whatever the coins say; beside the true verdicts, all right, they would differ.
    method, weights = method_named("random-reward"), replace(PAPER, conversion=0.0)
    groups = [[replace(make_match("correct", "correct"), sample=sample) for sample in range(8)]]
    view, own = replace(_view("random-reward"), weights=weights), TrainSettings()
    stream = next(stream for stream in method.streams(groups, view) if stream.role == "challenger")
    assert len(set(stream.groups[0].is_right)) == 2, "this seed's coins fall both ways"
    earned = credit(stream, method, own).credit
    assert bonus_effective_fraction(stream, earned, method, own=own, weights=weights) == 0.0


def test_masking_truncated_challenges_is_not_taken_for_the_bonus(make_match):
    # one answer is cut off: masked on both sides of the comparison, it cannot tell the two methods apart
    cut_off = make_match("correct", "truncated", stop="length")
    groups = [[make_match("correct", "correct"), make_match("correct", "wrong"), cut_off]]
    assert _fraction("cooperative", groups, mask_truncated=True) == 0.0


def test_strata_of_the_advantage_are_not_taken_for_the_bonus(make_match):
    # Within a stratum the bonus is the same for all that are right; pooled over strata its size is felt, without it nothing is.
    groups = [
        [make_match(draft, own) for draft in ("wrong", "correct") for own in ("correct", "wrong")],
    ]
    assert _fraction("cooperative", groups, advantage="stratified") == 0.0
    assert _fraction("agon", groups, advantage="stratified") == 1.0


def test_tokens_are_counted_by_role_and_budgets_since_the_run_began(make_match):
    kept = [[make_match("wrong", "correct"), make_match("correct", "wrong")]] * 2
    row = _row("agon", kept, before=Progress(3, 6, 24, 0), step=3)
    # 4 matches of 3 + 4 tokens; 2 problems of 4 rollouts more.
    assert (row["draft/tokens_generated"], row["challenge/tokens_generated"]) == (12, 16)
    assert (row["problems_consumed"], row["rollouts_generated"], row["rollouts_discarded"]) == (8, 32, 0)
    assert (row["rollouts_per_problem"], row["drafter"]) == (4.0, "B")
    assert row["pair/distance"] == 1.25


def test_one_adapter_has_no_distance_and_no_challenge(make_match):
    row = _row("grpo", [[make_match("correct"), make_match("wrong")] * 2])
    assert not any(name.startswith(("pair/", "challenge/", "match/")) for name in row)


def test_what_was_discarded_is_in_the_accuracy_and_among_the_dead_groups(make_match):
    alive = [make_match("correct"), *[make_match("wrong")] * 3]
    row = _row("dapo", [alive], [[make_match("wrong")] * 4, [make_match("correct")] * 4])
    # 1 of 4, 0 of 4, 4 of 4; rewards 2 c + 0.5, of which 5 are right.
    assert row["draft/accuracy"] == pytest.approx(5 / 12)
    assert row["draft/reward_mean"] == pytest.approx((5 * 2 + 12 * 0.5) / 12)
    assert row["draft/dead_group_share"] == pytest.approx(2 / 3)
    assert (row["rollouts_generated"], row["rollouts_discarded"], row["problems_consumed"]) == (12, 8, 3)


def test_a_step_in_which_nothing_had_a_signal_has_its_numbers_all_the_same(make_match):
    row = _row("dapo", [], [[make_match("wrong")] * 4])
    assert (row["draft/accuracy"], row["draft/dead_group_share"], row["draft/tokens_learned"]) == (0.0, 1.0, 0)


def test_the_rate_follows_the_share_of_problems_that_is_used_up(make_match):
    # 7 of 20 problems are gone after two steps: 3.5 of 10 steps, (10 - 3.5)/10.
    row = _row("dapo", [[make_match("wrong")] * 4], before=Progress(2, 7, 28, 0), warmup_share=0.0, learning_rate=1.0)
    assert row["learning_rate"] == pytest.approx(0.65)


def test_a_role_that_does_not_learn_is_measured_and_has_no_update(make_match):
    row = _row("frozen-opponent", [[make_match("wrong", "correct"), make_match("correct", "wrong")]])
    assert (row["draft/accuracy"], row["draft/tokens_generated"]) == (0.5, 6)
    assert "draft/loss" not in row
    assert "draft/reward_mean" not in row
    assert {"challenge/loss", "challenge/reward_mean", "challenge/dead_group_share"} <= row.keys()


def test_rates_of_the_exchange_are_there_also_where_nobody_reads(make_match):
    kept = [[replace(make_match("wrong", own), summaries=()) for own in ("correct", "wrong")]]
    row = _row("hidden", kept)
    assert (row["match/conversion"], row["match/regression"]) == (0.5, None)
    assert (row["match/leak_rate"], row["match/withheld_mean"]) == (None, None)


def test_advantages_are_told_apart_by_what_became_of_the_draft(make_match):
    groups = [
        # rewards 3.5, 2.5, .5 (mean 6.5/3): |A| = 4/3 after a wrong draft; 1/3 and 5/3 after right ones
        [make_match("wrong", "correct"), make_match("correct", "correct"), make_match("correct", "wrong")],
        [make_match("wrong", "wrong")] * 3,  # dead: not learned from
    ]
    row = _row("agon", groups, advantage="group_mean")
    assert row["match/advantage_draft_wrong"] == pytest.approx(4 / 3)
    assert row["match/advantage_draft_right"] == pytest.approx((1 / 3 + 5 / 3) / 2)


def test_groups_that_only_a_bonus_tells_apart_are_counted_as_revived(make_match):
    groups = [
        [make_match("wrong", "correct"), make_match("correct", "correct")],  # 3.5 and 2.5, both right
        [make_match("wrong", "wrong"), make_match("correct", "wrong")],
    ]
    row = _row("agon", groups)
    assert (row["challenge/revived_group_share"], row["challenge/dead_group_share"]) == (0.5, 1.0)
    assert row["draft/revived_group_share"] == 0.0
