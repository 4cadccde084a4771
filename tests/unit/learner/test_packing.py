"""Micro-batches: what stands where, by position and never by value."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agon.learner.packing import Sample, make_microbatches

CPU = torch.device("cpu")
EOS = 2


def sample(prompt, completion, advantage=1.0):
    return Sample(tuple(prompt), tuple(completion), tuple(-0.1 * index for index in range(len(completion))), advantage)


def test_what_is_learned_goes_by_position_although_padding_equals_the_end_token():
    # T06: ids [5, 6, EOS] then EOS as padding; a mask by value would take the padding, or drop the real end.
    stopped, truncated = sample([EOS, 9], [5, 6, EOS]), sample([8], [5, 6, 7, 8, 9], -1.0)
    (batch,) = make_microbatches([stopped, truncated], [0, 1], budget=100, is_packed=True, device=CPU)
    assert batch.samples == (1, 0)  # longest first
    # Inputs leave out the last completion token: it predicts nothing.
    assert batch.input_ids.tolist() == [[8, 5, 6, 7, 8, EOS, 9, 5, 6]]
    assert batch.position_ids.tolist() == [[0, 1, 2, 3, 4, 0, 1, 2, 3]]
    assert batch.target_ids.tolist() == [5, 6, 7, 8, 9, 5, 6, EOS]
    # Position 4 of the second sample (flat 6) holds the last prompt token, which predicts the first completion token.
    assert batch.predict_index.tolist() == [0, 1, 2, 3, 4, 6, 7, 8]
    assert batch.rows.tolist() == [0] * 5 + [1] * 3
    assert batch.lengths.tolist() == [5, 3]
    assert batch.advantages.tolist() == [-1.0, 1.0]
    assert batch.behavior_logprobs.tolist() == pytest.approx([0, -0.1, -0.2, -0.3, -0.4, 0, -0.1, -0.2])


def test_padded_rows_stand_left_and_name_the_same_targets():
    samples = [sample([1, 3], [4, 5, 6]), sample([7], [8])]
    (batch,) = make_microbatches(samples, [0, 1], budget=100, is_packed=False, device=CPU)
    assert batch.packing is None
    assert batch.input_ids.tolist() == [[1, 3, 4, 5], [7, 0, 0, 0]]
    assert batch.predict_index.tolist() == [1, 2, 3, 4]
    assert batch.target_ids.tolist() == [4, 5, 6, 8]


LENGTHS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=20)


@given(LENGTHS, st.integers(1, 40), st.booleans())
def test_every_sample_is_in_one_micro_batch_and_the_budget_holds(lengths, budget, is_packed):
    samples = [sample([1] * prompt, [3] * completion) for prompt, completion in lengths]
    chosen = [index for index in range(len(samples)) if index % 3]
    batches = make_microbatches(samples, chosen, budget=budget, is_packed=is_packed, device=CPU)
    assert sorted(index for batch in batches for index in batch.samples) == chosen
    for batch in batches:
        assert batch.input_ids.numel() <= budget or len(batch.samples) == 1
        if is_packed:
            assert batch.input_ids.numel() == sum(sum(lengths[index]) - 1 for index in batch.samples)
