"""Length terms: the published formulas with values worked by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.rewards.length import (
    kimi_terms,
    lcpo_exact,
    lcpo_max,
    lead_factors,
    lead_terms,
    shorter_better_terms,
    soft_overlong,
)


@pytest.mark.parametrize(("target", "length", "expected"), [(1000, 1000, 1.0), (1000, 2000, 0.7), (3600, 400, 0.04)])
def test_lcpo_exact_takes_off_each_token_of_distance(target, length, expected):
    assert lcpo_exact(True, length, target=target, alpha=3e-4) == pytest.approx(expected)
    assert lcpo_exact(False, length, target=target, alpha=3e-4) == pytest.approx(expected - 1.0)


@pytest.mark.parametrize(("target", "length", "expected"), [(2000, 1000, 0.8), (1000, 2000, 0.2), (1000, 4000, 0.0)])
def test_lcpo_max_is_half_at_the_target(target, length, expected):
    assert lcpo_max(True, length, target=target, alpha=3e-4) == pytest.approx(expected)
    assert lcpo_max(True, target, target=target, alpha=3e-4) == 0.5
    assert lcpo_max(True, 0, target=4000, alpha=3e-4) == 1.0  # 1.7, clipped
    assert lcpo_max(False, length, target=target, alpha=3e-4) == 0.0


def test_kimi_pays_short_right_answers_and_never_a_wrong_one():
    assert kimi_terms([True, True, True, False], [100, 200, 300, 200]) == (0.5, 0.0, -0.5, 0.0)
    # a wrong answer that is short gets min(0, .5) = 0, a long one its -.5
    assert kimi_terms([False, False], [100, 300]) == (0.0, -0.5)
    assert kimi_terms([True, False], [200, 200]) == (0.0, 0.0)


def test_lead_standardises_lengths_among_right_answers():
    # 100, 200, 300: mean 200, population deviation 81.65, z = -1.2247, 0, 1.2247; the wrong one is in neither
    terms = lead_terms([True, True, True, False], [100, 200, 300, 9000], alpha=0.05)
    assert terms == pytest.approx((1.0632, 1.0, 0.9406, -1.0), abs=5e-5)
    assert lead_terms([True, False], [100, 900], alpha=0.05) == (1.0, -1.0)
    assert lead_terms([False, False], [100, 900], alpha=0.05) == (-1.0, -1.0)


@pytest.mark.parametrize(
    ("share", "weight"), [(0.125, 1.498), (0.5, 1.417), (0.75, 0.95), (0.875, 0.645), (1.0, 0.483)]
)
def test_lead_weighs_rare_successes_and_rare_failures_most(share, weight):
    positive, negative = lead_factors(share)
    assert positive == pytest.approx(weight, abs=6e-4)
    assert negative == lead_factors(1.0 - share)[0]


def test_shorter_better_aims_at_the_shortest_right_answer_or_the_mean():
    assert shorter_better_terms([False, True, True], [50, 200, 100]) == (50, 100, 0)
    assert shorter_better_terms([False, False], [50, 150]) == (50, 50)


@pytest.mark.parametrize(
    ("length", "expected"), [(16000, 0.0), (16384, 0.0), (18432, -0.5), (20480, -1.0), (20481, -1.0), (99999, -1.0)]
)
def test_soft_overlong_falls_along_a_line_to_the_cap(length, expected):
    assert soft_overlong(length, cap=20480, cache=4096) == expected


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 500)), min_size=2, max_size=16))
def test_no_relative_term_prefers_the_longer_of_two_right_answers(rows):
    right, lengths = zip(*rows, strict=True)
    chosen = [i for i, is_right in enumerate(right) if is_right]
    falling = (kimi_terms(right, lengths), lead_terms(right, lengths, alpha=0.05))
    rising = shorter_better_terms(right, lengths)
    for i in chosen:
        for j in chosen:
            if lengths[i] < lengths[j]:
                assert all(terms[i] >= terms[j] for terms in falling)
                assert rising[i] <= rising[j]
