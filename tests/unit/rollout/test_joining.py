from __future__ import annotations

from agon.rollout.joining import Patience


def test_a_lone_request_joins_at_once_where_few_run():
    assert all(Patience().is_over(1, running) for running in (0, 1, 16))
    assert Patience().is_over(3, 48)


def test_where_many_run_it_waits_for_others_but_no_more_than_four_steps():
    patience = Patience()
    assert [patience.is_over(1, 100) for _ in range(11)] == [False] * 4 + [True] + [False] * 4 + [True, False]


def test_waiting_begins_anew_with_those_that_come_after():
    patience = Patience()
    assert [patience.is_over(waiting, 100) for waiting in (1, 2, 7, 1, 1)] == [False, False, True, False, False]
    assert not Patience().is_over(0, 0)
    # Steps in which nobody waits do not count.
    assert [patience.is_over(waiting, 100) for waiting in (0, 0, 0, 1, 1, 1)] == [False] * 5 + [True]
