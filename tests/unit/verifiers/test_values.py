import pytest
import sympy
from sympy import E, Eq, Ge, I, Interval, Lt, Matrix, Ne, Rational, acos, asin, exp, oo, pi, sin, sqrt, symbols

from agon.verifiers.values import exact_value, is_rounded, is_same_set, is_same_value

x, y, a = symbols("x y a")
TINY = Rational(1, 10**30)


@pytest.mark.parametrize(
    ("wanted", "found", "is_same"),
    [
        (Rational(1, 2**80), Rational(1, 2**79), False),
        (sympy.Pow(2, -80, evaluate=False), Rational(1, 2**80), True),
        (sqrt(2) * TINY, sqrt(3) * TINY, False),
        (sqrt(2) * TINY**2, sqrt(3) * TINY**2, False),
        (sqrt(2) + TINY, sqrt(2), False),
        (sqrt(2) + TINY**3, sqrt(2), True),  # 60 digits agree
        (exp(100), exp(100) + 1, False),
        (exp(100), exp(50) ** 2, True),
        (1 - exp(-100), sympy.Integer(1), False),
        (exp(2 * pi * I * x), exp(4 * pi * I * x), False),
        (exp(I * x), sympy.cos(x) + I * sin(x), True),
        ((-1) ** x, (-1) ** (-x), True),  # the same for whole x, and off the real line no branch is the right one
        ((-1) ** (x * (x - 1) / 2), -((-1) ** (2 * x)), False),
        (abs(x - 10), 10 - x, False),
        (sympy.floor(x / 5), sympy.floor(x / 6), False),
        (abs(sympy.Symbol("z")) ** 2, sympy.Symbol("z") ** 2, False),
        (sympy.Pow(2, 10**4, evaluate=False), sympy.Pow(2, 10**4, evaluate=False) + 1, False),
        (sqrt(2) + Rational(1, 10**20), sqrt(2), False),
        (sqrt(5 + 2 * sqrt(6)), sqrt(2) + sqrt(3), True),
        (exp(I * pi), sympy.Integer(-1), True),
        (2 * I, -2 * I, False),
        (oo, oo, True),
        (oo, -oo, False),
        ((x + 1) ** 2, x**2 + 2 * x + 1, True),
        (x + TINY, x, False),  # with rational numbers alone a point is exact
        (x, y, False),
        (abs(x), x, False),
        (2 * asin(sqrt(a)), acos(1 - 2 * a), True),
        (sin(x) ** 2 + sympy.cos(x) ** 2, sympy.Integer(1), True),
        (sympy.factorial(x), x * sympy.factorial(x - 1), True),
        (Eq(x - 2 * y, 3), Eq(4 * y - 2 * x, -6), True),
        (Eq(x - 2 * y, 3), Eq(x - 2 * y, 4), False),
        (Eq(x, 3), Eq(y, 3), False),
        (Lt(x, 3), Lt(2 * x, 6), True),
        (Lt(x, 3), Lt(-x, -3), False),
        (Lt(x, 3), sympy.Gt(3, x), True),
        (Ge(x, 3), sympy.Gt(x, 3), False),
        (Ne(x, 3), Ne(x, 3), True),
        (Ne(x, 3), Eq(x, 3), False),
        (Matrix([1, sqrt(4)]), Matrix([1, 2]), True),
        (Matrix([1, 2]), Matrix([[1, 2]]), False),
        (E, x, False),
    ],
)
def test_values_are_the_same_or_not(wanted, found, is_same):
    assert is_same_value(wanted, found) is is_same
    assert is_same_value(found, wanted) is is_same


@pytest.mark.parametrize(
    ("wanted", "found", "is_same"),
    [
        (Interval.open(1, sqrt(4)), Interval.open(1, 2), True),
        (Interval.open(1, 2), Interval(1, 2), False),
        (Interval.open(-oo, 3), Lt(x, 3), True),
        (sympy.Union(Interval(0, 1), Interval(2, 3)), sympy.Union(Interval(2, 3), Interval(0, 1)), True),
        (sympy.Union(Interval(0, 1), Interval(2, 3)), sympy.Union(Interval(0, 1), Interval(2, 4)), False),
        (Interval(0, 1), sympy.FiniteSet(0, 1), False),
        (Interval(0, 1), Lt(x, y), False),
    ],
)
def test_sets_are_the_same_or_not(wanted, found, is_same):
    assert is_same_set(wanted, found) is is_same
    assert is_same_set(found, wanted) is is_same


def test_only_what_is_cheap_is_made_exact():
    assert exact_value(sympy.Pow(2, sympy.Pow(2, 3, evaluate=False), evaluate=False)) is None
    assert exact_value(sympy.Pow(9, 9**9, evaluate=False)) is None
    assert exact_value(sqrt(2)) is None
    assert exact_value(sympy.Add(Rational(1, 2), Rational(1, 3), evaluate=False)) == Rational(5, 6)


def test_only_what_no_decimal_writes_out_is_rounded():
    assert is_rounded(sqrt(2), Rational("1.4142135624"), 11)
    assert not is_rounded(sqrt(2), Rational("1.4142135"), 11)
    assert is_rounded(Rational(1, 3), Rational("0.33333333"), 8)
    assert not is_rounded(Rational(1, 8), Rational("0.12500001"), 8)
    assert not is_rounded(x, Rational("0.12500001"), 8)
