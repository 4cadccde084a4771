from __future__ import annotations

import pytest

from agon.seeding import python_rng
from agon.train.credit import credit_stream


@pytest.fixture
def matches(make_match):
    return [make_match(i % 2, 1, sample=i, phi_b=float(i < 40)) for i in range(80)]


def _coin(role, sample, *, step=0, seed=0):
    return int(python_rng(seed, "coin", step, "p", role, sample).random() < 0.5)


def test_coins_take_the_place_of_both_verdicts_and_format_is_kept(matches, rewards_of):
    drafts, challenges = rewards_of("random-reward", matches)
    a = [_coin("drafter", i) for i in range(80)]
    b = [_coin("challenger", i) for i in range(80)]
    assert drafts == tuple(2.0 * x + 0.5 for x in a)
    assert challenges == tuple(
        2.0 * y + y * (1 - x) + 0.5 * (i < 40) for i, (x, y) in enumerate(zip(a, b, strict=True))
    )


def test_the_coin_is_fair_and_drawn_anew_every_step(matches, streams_of):
    heads = [
        right
        for step in range(20)
        for stream in streams_of("random-reward", matches, step=step)
        for right in stream.groups[0].is_right
    ]
    # 3,200 fair coins: a standard deviation is 0.5 / sqrt(3200) = 0.0088, and this allows five.
    assert abs(sum(heads) / len(heads) - 0.5) < 0.045
    first, second = (streams_of("random-reward", matches, step=step)[0].groups[0].is_right for step in (0, 1))
    assert first != second
    assert first == streams_of("random-reward", matches, step=0)[0].groups[0].is_right
    assert first != streams_of("random-reward", matches, step=0, seed=1)[0].groups[0].is_right


def test_attempts_keep_their_true_verdicts(matches, streams_of):
    drafts, challenges = streams_of("random-reward", matches)
    assert [attempt.is_correct for attempt in drafts.groups[0].attempts] == [bool(i % 2) for i in range(80)]
    assert all(attempt.is_correct for attempt in challenges.groups[0].attempts)


def test_the_filter_looks_at_coins(matches, streams_of):
    # All challenges are right, and of one format here: by their verdicts the group would be dead.
    stream = streams_of("random-reward", matches[:8])[1]
    assert {attempt.verdict.outcome for attempt in stream.groups[0].attempts} == {"correct"}
    credit = credit_stream(stream, scale="group_std", mask_truncated=False).credit
    assert credit.num_dead_groups == 0


def test_what_could_not_be_checked_stays_masked(make_match, streams_of):
    stream = streams_of("random-reward", [make_match(0, "error"), make_match(0, 1), make_match(0, 0)])[1]
    credit = credit_stream(stream, scale="none", mask_truncated=False).credit
    assert credit.num_masked == 1
    assert not credit.groups[0].is_learned[0]
