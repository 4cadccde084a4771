import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import cohens_kappa

from agon.stats import complementarity, complementarity_from_counts, complementarity_gain


def test_the_vector_of_algorithms_10():
    out = complementarity_from_counts(both=90, only_first=48, only_second=30, neither=132)
    expected = {
        "q": 0.7838,
        "rho": 0.4751,
        "disagreement": 0.26,
        "double_fault": 0.44,
        "union": 0.56,
        "independent_union": 0.676,
        "kappa": 0.4715,
        "error_jaccard": 0.6286,
    }
    assert {name: round(out.to_json()[name], 4) for name in expected} == expected


@settings(max_examples=40)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_measures_agree_with_numpy_and_statsmodels(pairs):
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    out = complementarity(first, second)
    assert out.both + out.only_first + out.only_second + out.neither == len(pairs)
    assert out.union == pytest.approx(np.mean(np.logical_or(first, second)))
    if np.std(first) and np.std(second):
        assert out.rho == pytest.approx(np.corrcoef(first, second)[0, 1])
        assert out.kappa == pytest.approx(
            cohens_kappa([[out.both, out.only_first], [out.only_second, out.neither]]).kappa
        )
    else:
        assert out.rho is None


def test_measures_without_a_value_are_none():
    out = complementarity([True, True], [True, True])
    assert (out.q, out.rho, out.kappa, out.error_jaccard) == (None, None, None, None)
    assert (out.union, out.double_fault) == (1.0, 0.0)


def test_nothing_to_compare_is_refused():
    with pytest.raises(ValueError, match="at least one problem"):
        complementarity([], [])
    with pytest.raises(ValueError, match="zip"):
        complementarity([True], [])
    with pytest.raises(ValueError, match="at least one problem"):
        complementarity_gain([], [])


def test_systems_that_solve_opposite_problems_gain_what_the_second_sample_cannot():
    # A solves problem 1 always and 2 never, B the reverse: union 1, pass@2 of either 1/2.
    assert complementarity_gain([[True, True], [False, False]], [[False, False], [True, True]]) == pytest.approx(0.5)


def test_a_system_gains_nothing_over_itself_on_average():
    rng = np.random.default_rng(0)
    chance = rng.random(4000)[:, None]
    first, second = (rng.random((4000, 4)) < chance).tolist(), (rng.random((4000, 4)) < chance).tolist()
    assert complementarity_gain(first, second) == pytest.approx(0.0, abs=0.01)
