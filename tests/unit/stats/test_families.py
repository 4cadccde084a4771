from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from agon.stats import holm


def test_three_values_worked_by_hand():
    # sorted .01 .03 .04: 3 * .01 = .03; 2 * .03 = .06; 1 * .04 = .04, raised to .06 for order. Back in the order given:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_a_family_of_one_is_left_alone_and_none_is_none():
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


def test_nothing_exceeds_one():
    assert holm([0.9, 0.6]) == [1.0, 1.0]


@settings(max_examples=40)
@given(st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.01, 0.5, 1.0])), min_size=1, max_size=30))
def test_it_agrees_with_statsmodels(p_values):
    # It collects garbage on every call, which takes longer than all else here.
    with mock.patch("gc.collect"):
        theirs = multipletests(p_values, method="holm")[1]
    assert holm(p_values) == pytest.approx(list(theirs))


@settings(max_examples=40)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_no_value_gets_smaller_and_order_is_kept(p_values):
    adjusted = holm(p_values)
    assert all(after >= before for before, after in zip(p_values, adjusted, strict=True))
    ranked = [adjusted[i] for i in sorted(range(len(p_values)), key=lambda i: p_values[i])]
    assert ranked == sorted(ranked)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_what_is_no_p_value_is_refused(value):
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm([0.5, value])
