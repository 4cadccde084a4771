import pytest
from sympy import pi, symbols

from agon.verifiers.letters import letter_chosen, renamed

x, k, n, C, K = symbols("x k n C K")


@pytest.mark.parametrize(
    ("wanted", "found", "letters"),
    [
        (x**2 + C, x**2 + K, {"K": "C"}),
        (x**2 + C, x**2 + 2 * K, {}),
        (x**2 * C, x**2 + K, {}),
        (k * pi, n * pi, {"n": "k"}),
        (k, n, {}),
        (k * pi, x * pi, {}),
        (x * pi, x * pi, {}),
    ],
)
def test_a_constant_and_an_integer_beside_pi_may_have_another_letter(wanted, found, letters):
    assert letter_chosen(wanted, found) == letters


def test_renaming_exchanges_letters_and_leaves_the_rest():
    assert renamed(n * pi + x, {"n": "k"}) == k * pi + x
    assert renamed(n, {}) == n
