from __future__ import annotations

import numpy as np
import pytest
import torch

from agon.records import Request
from agon.rollout.rows import Rows

VOCAB = 7


def _rows(**options) -> Rows:
    is_stop = np.zeros(VOCAB, dtype=np.bool_)
    is_stop[1] = True
    return Rows(is_stop=is_stop, device=torch.device("cpu"), **{"room": 2, "longest": 3, **options})


def _logits(*tokens: int) -> torch.Tensor:
    """Logits that leave no choice but these tokens."""
    return torch.full((len(tokens), VOCAB), -100.0).scatter_(1, torch.tensor(tokens)[:, None], 100.0)


def _request(max_tokens: int, *, seed: int = 0, **options) -> Request:
    return Request((2, 3), None, max_tokens, seed, **options)


def test_rows_end_by_the_stop_token_or_their_cap_with_what_was_sampled_for_them():
    rows = _rows()
    requests = [(7, _request(3)), (9, _request(2))]
    rows.join(requests)
    assert rows.advance(_logits(4, 5)) == []
    assert rows.latest().keys == [7, 9]
    assert rows.latest().tokens == [4, 5]
    capped, stopped = sorted(rows.advance(_logits(1, 6)), key=lambda ended: -ended.key)
    assert (capped.key, capped.request, capped.token_ids, capped.stop_reason) == (9, requests[1][1], [5, 6], "length")
    assert (stopped.key, stopped.request, stopped.token_ids, stopped.stop_reason) == (7, requests[0][1], [4, 1], "stop")
    assert capped.logprobs == pytest.approx([0.0, 0.0], abs=1e-6)
    assert rows.num_running == 0
    assert rows.leave() == []


def test_the_first_tokens_of_those_that_join_are_told_of_alone():
    rows = _rows(room=4)
    rows.join([(0, _request(3))])
    rows.advance(_logits(4))
    rows.join([(1, _request(3)), (2, _request(1))])
    assert [ended.key for ended in rows.advance(_logits(5, 6), first=1)] == [2]
    assert rows.latest().keys == [1, 2]
    assert rows.latest().tokens == [5, 6]
    rows.advance(_logits(4, 5, 6))
    assert rows.latest().keys == [0, 1]
    assert rows.positions.tolist()[:2] == [3, 3]  # two tokens of prompt, two sampled


def test_there_is_room_for_more_rows_and_more_tokens_than_were_foreseen():
    # The same request gets the same numbers whatever room it found.
    roomy, tight = _rows(room=50, longest=90), _rows(room=1, longest=1)
    logits = torch.randn(9, VOCAB, generator=torch.Generator().manual_seed(0))
    logits[:, 1] = -torch.inf
    found = []
    for rows in (roomy, tight):
        ended = []
        rows.join([(0, _request(2))])
        ended += rows.advance(logits[:1])
        for key in range(1, 9):
            rows.join([(key, _request(5 * key, seed=key))])
            ended += rows.advance(logits[:1], first=len(rows) - 1)
            ended += rows.advance(logits[: len(rows)])
        while rows.num_running:
            rows.leave()
            ended += rows.advance(logits[: len(rows)])
        found.append({one.key: (one.token_ids, one.stop_reason) for one in ended})
    assert found[0].keys() == set(range(9))
    assert found[0] == found[1]
    assert len(found[1][8][0]) == 40


def test_rows_that_are_dropped_give_no_answer_and_their_seats_are_taken_anew():
    rows = _rows(room=2)
    rows.join([(0, _request(3)), (1, _request(3))])
    rows.advance(_logits(4, 5))
    rows.drop([0, 99])
    assert rows.num_running == 1
    assert rows.advance(_logits(1, 5)) == []  # it would have ended here
    assert rows.latest().keys == [1]
    rows.join([(2, _request(1))])
    assert [ended.key for ended in rows.advance(_logits(6), first=2)] == [2]
    # The seat of 2 was that of 0. Both have ended: dropping them again changes nothing.
    rows.drop([0, 2])
    assert rows.leave() == [1]
    rows.join([(3, _request(1)), (4, _request(1))])
    assert sorted(ended.key for ended in rows.advance(_logits(6, 6), first=1)) == [3, 4]
    assert rows.leave() == [0]
    (ended,) = rows.advance(_logits(4))
    assert (ended.key, ended.token_ids) == (1, [5, 5, 4])


def test_a_seat_is_used_again_before_room_is_made_for_another():
    rows = _rows(room=2)
    for key in range(50):
        rows.join([(key, _request(1))])
        assert [ended.key for ended in rows.advance(_logits(4))] == [key]
        assert rows.leave() == []
    assert len(rows._keys) == 2
