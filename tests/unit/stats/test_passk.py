import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.stats import pass_at_k


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [(8, 2, 1, 0.25), (8, 2, 4, 0.7857), (8, 0, 4, 0.0), (8, 8, 4, 1.0), (10, 3, 5, 0.9167), (8, 5, 4, 1.0)],
)
def test_values_of_algorithms_10(n, c, k, expected):
    assert pass_at_k(n, c, k) == pytest.approx(expected, abs=5e-5)


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_it_is_the_share_of_k_subsets_with_a_right_sample(case):
    n, c, k = case
    subsets = list(itertools.combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


@pytest.mark.parametrize(("n", "c", "k"), [(4, 5, 1), (4, -1, 1), (4, 2, 5), (4, 2, 0)])
def test_impossible_counts_are_refused(n, c, k):
    with pytest.raises(ValueError, match="must be between"):
        pass_at_k(n, c, k)


def test_large_counts_stay_finite_and_exact():
    # 1 - (1 - c/n) for k = 1.
    assert pass_at_k(100_000, 25_000, 1) == pytest.approx(0.25, rel=1e-9)
