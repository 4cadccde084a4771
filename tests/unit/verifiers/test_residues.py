import pytest
import sympy
from sympy import I, Pow, Rational, factorial, pi, symbols

from agon.verifiers.residues import has_large_power, have_same_remainders

x = symbols("x")


def power(base, exponent):
    return Pow(base, exponent, evaluate=False)


HALVES = power(2, sympy.Mul(-1, power(2, 2001), evaluate=False))
TOWER = power(2, power(2, power(2, 2001)))


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        (power(2, 10_000), sympy.Mul(4, power(2, 9_998), evaluate=False), True),
        (power(2, 10_000), power(2, 10_000) + 1, False),
        (TOWER, sympy.Mul(TOWER, TOWER, evaluate=False), False),
        (HALVES, power(power(2, power(2, 2001)), -1), True),
        (HALVES, power(2, power(2, 2001)), False),
        (factorial(5001, evaluate=False), 5001 * factorial(5000, evaluate=False), True),
        (factorial(10**7, evaluate=False), sympy.Integer(1), None),
        (sympy.binomial(6000, 2, evaluate=False), sympy.Integer(6000 * 5999 // 2), True),
        (power(1 + I, 4000), power(-4, 1000), True),  # (1 + i)^4 = -4
        (power(1 + I, 4001), power(1 - I, 4001), False),
        (pi * power(3, 5000), 3 * pi * power(3, 4999), True),
        (power(x, 5000) + x, x + power(x, 5000), True),
        (Rational(1, 3), Rational(2, 6), True),
    ],
)
def test_numbers_too_large_to_write_out_are_told_by_their_remainders(first, second, is_same):
    found = have_same_remainders(first, second)
    assert found is is_same


def test_a_power_is_large_by_its_exponent():
    assert has_large_power(power(2, 10_000))
    assert has_large_power(sympy.Add(x, TOWER, evaluate=False))
    assert has_large_power(factorial(5001, evaluate=False))
    assert not has_large_power(power(2, 100))
    assert not has_large_power(Pow(2, sympy.sqrt(2) / 2))
    assert not has_large_power(Pow(2, x))
