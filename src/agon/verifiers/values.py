"""Decide whether two sympy values are the same. Runs in a worker process only: sympy may hang or fill the memory.

* Made of rational numbers alone: compared exactly; with powers too large to write out, by remainders (`residues`).
* Other constants: both to 40 digits, equal where 25 agree and the difference is below 10^-60. No digit is chopped.
* With variables: at many points (`points`), exactly where that can be done; equal if they agree wherever both are real, at three or more.
  An identity such as arccos(1-2a) = 2 arcsin(sqrt(a)) is found in this way, and a difference at one point is a proof.
* Equations and inequalities: the same up to a constant factor, by the same points.
* Sets: interval by interval; a relation in one variable is the set it describes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import sympy
from math_verify.grader import get_pct_val, sympy_symbolic_eq, unwrap_fcs
from sympy.core.function import AppliedUndef
from sympy.core.relational import Relational

from agon.numerals import rounding_error
from agon.verifiers.points import have_branches, points
from agon.verifiers.residues import has_large_power, have_same_remainders

_DIGITS = 40
_NEAR = sympy.Rational(1, 10**25)
_NOTHING = sympy.Rational(1, 10**35)
_MAX_POWER = 5_000
_MIN_POINTS = 3
_NEARER = sympy.Rational(1, 10**60)
_MAX_DIGITS = 3_000
_BOUND = (sympy.Sum, sympy.Product, sympy.Integral, sympy.Derivative, sympy.Limit, sympy.Subs)


def is_same_value(wanted: Any, found: Any) -> bool:
    """Tell whether two parsed answers are equal."""
    first, second = exact_value(wanted), exact_value(found)
    if first is not None and second is not None:
        return first == second or _is_same_but_for_percent(wanted, found)
    matrices = _matrix(wanted), _matrix(found)
    if matrices[0] is not None or matrices[1] is not None:
        return _is_same_matrix(*matrices)
    if isinstance(wanted, sympy.Expr) and isinstance(found, sympy.Expr):
        return _is_same_expression(_simple(wanted), _simple(found))
    if isinstance(wanted, Relational) and isinstance(found, Relational):
        return _is_same_relation(wanted, found)
    if isinstance(wanted, sympy.And) and isinstance(found, sympy.And):
        return are_matched(wanted.args, found.args)
    return is_same_set(wanted, found)


def is_unfinished(wanted: Any, found: Any) -> bool:
    """Tell whether an answer leaves a sum, product, integral, derivative or limit to be done that the gold answer has not."""
    return (
        isinstance(found, sympy.Basic)
        and found.has(*_BOUND)
        and not (isinstance(wanted, sympy.Basic) and wanted.has(*_BOUND))
    )


def is_same_set(wanted: Any, found: Any) -> bool:
    """Tell whether two sets are the same, of which one may be the relation that describes it."""
    first, second = as_set(wanted), as_set(found)
    if first is None or second is None:
        return False
    if isinstance(first, sympy.Interval) and isinstance(second, sympy.Interval):
        ends = ((first.start, second.start), (first.end, second.end))
        is_open_alike = first.left_open == second.left_open and first.right_open == second.right_open
        return bool(is_open_alike) and all(is_same_value(one, other) for one, other in ends)
    if type(first) is type(second) and isinstance(first, sympy.Union | sympy.FiniteSet):
        return are_matched(first.args, second.args)
    return bool(first == second or first.symmetric_difference(second).is_empty)


def are_matched(wanted: Sequence[Any], found: Sequence[Any]) -> bool:
    """Tell whether each value of one side is one of the other."""
    return all(any(is_same_value(one, other) for other in found) for one in wanted) and all(
        any(is_same_value(one, other) for one in wanted) for other in found
    )


def as_set(value: Any) -> Any:
    """Return a set, or the set that a relation in one variable describes; None for anything else."""
    if isinstance(value, Relational | sympy.And):
        try:
            relation: Any = unwrap_fcs(value)
            return relation.as_set()
        except (NotImplementedError, ValueError, TypeError, AttributeError):  # several variables, or no way to solve it
            return None
    return value if isinstance(value, sympy.Set) else None


def is_rounded(exact: Any, rounded: Any, num_digits: int) -> bool:
    """Tell whether a number that no decimal writes out in full rounds to a decimal of that many significant digits."""
    if not isinstance(exact, sympy.Expr) or exact.free_symbols:
        return False
    known = exact_value(exact)
    if known is not None and not _is_endless(known):
        return False
    value = _number_at(exact, {})
    if value is None or not value:
        return False
    error = rounding_error(Fraction(int(rounded.p), int(rounded.q)), num_digits)
    return bool(abs(value - rounded) <= sympy.Rational(error.numerator, error.denominator))


def exact_value(value: Any) -> Any:
    """Return a sympy.Rational (else None) for what is made of rational numbers by + - * / and small powers alone."""
    if isinstance(value, sympy.Float):
        return sympy.Rational(str(value))
    if not isinstance(value, sympy.Expr) or not all(_is_cheap(node) for node in sympy.preorder_traversal(value)):
        return None
    done: Any = value.doit()
    return done if isinstance(done, sympy.Rational) else None


def _is_cheap(node: Any) -> bool:
    if isinstance(node, sympy.factorial):
        return isinstance(node.args[0], sympy.Integer) and 0 <= int(node.args[0]) <= _MAX_POWER
    if isinstance(node, sympy.Pow):
        power = sympy.Integer(1)
        while isinstance(node, sympy.Pow):
            node, exponent = node.args
            power = power * exponent if isinstance(exponent, sympy.Integer) else sympy.oo
        return abs(power) <= _MAX_POWER
    return isinstance(node, sympy.Rational | sympy.Add | sympy.Mul | sympy.UnevaluatedExpr)


def _is_endless(value: sympy.Rational) -> bool:
    rest = int(value.q)
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest != 1


def _is_same_but_for_percent(wanted: Any, found: Any) -> bool:
    """Whether one side has a percent sign, the other has not, and the numbers before it are the same and not below 1."""
    first, second = get_pct_val(wanted), get_pct_val(found)
    if (first is None) == (second is None):
        return False
    bare = (exact_value(wanted if first is None else first), exact_value(found if second is None else second))
    return bare[0] == bare[1] and bare[0] is not None and abs(bare[0]) >= 1


def _matrix(value: Any) -> Any:
    """The entries of a matrix, or of a sum or product of some; None for what is none."""
    value = value.doit() if isinstance(value, sympy.MatrixExpr) else value
    return value if isinstance(value, sympy.MatrixBase) else None


def _is_same_matrix(wanted: Any, found: Any) -> bool:
    if wanted is None or found is None:
        return False
    pairs = zip(wanted.flat(), found.flat(), strict=False)
    return wanted.shape == found.shape and all(is_same_value(one, other) for one, other in pairs)


def _is_same_expression(wanted: Any, found: Any) -> bool:
    if wanted == found:
        return True
    if has_large_power(wanted) or has_large_power(found):
        # No number of digits shows the difference of 2^{10000} and 2^{10000} + 1.
        return have_same_remainders(wanted, found) is True
    names = sorted({symbol.name for symbol in wanted.free_symbols | found.free_symbols})
    if not names:
        return _is_same_constant(wanted, found)
    num_agreeing = 0
    has_branches = have_branches(wanted, found)
    for point in points(names, wanted, found):
        first, second = _number_at(wanted, point), _number_at(found, point)
        if first is None or second is None:
            continue
        if _is_near(first, second):
            num_agreeing += 1
        # Outside of the real numbers the branches of roots and logarithms may differ: such a point says nothing.
        elif not _is_nothing(first, second) and (not has_branches or _is_real(first) or _is_real(second)):
            return False
    return num_agreeing >= _MIN_POINTS or bool(sympy_symbolic_eq(wanted, found))


def _is_same_constant(wanted: Any, found: Any) -> bool:
    first, second = _number_at(wanted, {}), _number_at(found, {})
    if first is None or second is None:
        return False
    if _is_nothing(first, second):
        return bool(sympy_symbolic_eq(wanted, found))
    if not _is_near(first, second):
        return False
    if wanted.has(*_BOUND) or found.has(*_BOUND):
        return True
    # e^{100} and e^{100} + 1, or 1 and 1 - e^{-100}, agree to more digits than have been compared
    num_digits = 2 * _DIGITS + abs(int(sympy.log(abs(first), 10)))
    if num_digits > _MAX_DIGITS:
        return have_same_remainders(wanted, found) is True
    difference = wanted.evalf(num_digits, maxn=4 * num_digits) - found.evalf(num_digits, maxn=4 * num_digits)
    return bool(abs(difference) <= _NEARER)


def _is_same_relation(wanted: Any, found: Any) -> bool:
    """Whether the sides' differences are a constant multiple of each other: a positive one for inequalities."""
    if not all(isinstance(side, sympy.Expr) for side in (*wanted.args, *found.args)):
        return False
    (first, kind), (second, other_kind) = _difference(wanted), _difference(found)
    names = sorted({symbol.name for symbol in first.free_symbols | second.free_symbols})
    ratios: list[Any] = []
    for point in points(names, first, second):
        one, other = _number_at(first, point), _number_at(second, point)
        if one is not None and other is not None and not _is_nothing(one, one) and not _is_nothing(other, other):
            ratios.append(one / other)
    if kind != other_kind or len(ratios) < _MIN_POINTS or not all(_is_near(ratios[0], ratio) for ratio in ratios[1:]):
        return False
    return kind in ("Equality", "Unequality") or bool(_is_real(ratios[0]) and ratios[0] > 0)


def _difference(relation: Any) -> tuple[Any, str]:
    """One side minus the other, the smaller first, and the kind of the relation."""
    left, right, kind = relation.lhs, relation.rhs, type(relation).__name__
    turned = {"GreaterThan": "LessThan", "StrictGreaterThan": "StrictLessThan"}
    if kind in turned:
        left, right, kind = right, left, turned[kind]
    return _simple(left - right), kind


def _number_at(value: Any, point: Mapping[str, Any]) -> Any:
    """The number a value has at a point, None where it has none that is finite."""
    if isinstance(value, sympy.Rational):
        return value
    replacements = {symbol: point[symbol.name] for symbol in value.free_symbols}
    try:
        # xreplace is quick, but would replace the bound variable of a sum as well
        placed = value.subs(replacements) if value.has(*_BOUND) else value.xreplace(replacements)
        exact = exact_value(placed)
        number = placed.evalf(_DIGITS) if exact is None else exact
    except (ArithmeticError, ValueError, TypeError, AttributeError, NotImplementedError):
        return None
    return number if number.is_number and number.is_finite and not number.free_symbols and _is_plain(number) else None


def _is_plain(number: Any) -> bool:
    real, imaginary = number.as_real_imag()
    return isinstance(real, sympy.Float | sympy.Rational) and isinstance(imaginary, sympy.Float | sympy.Rational)


def _is_near(first: Any, second: Any) -> bool:
    if isinstance(first, sympy.Rational) and isinstance(second, sympy.Rational):
        return first == second
    return bool(abs(first - second) <= _NEAR * max(abs(first), abs(second)))


def _is_nothing(first: Any, second: Any) -> bool:
    return bool(abs(first) < _NOTHING and abs(second) < _NOTHING)


def _is_real(number: Any) -> bool:
    real, imaginary = number.as_real_imag()
    return bool(abs(imaginary) <= _NEAR * abs(real))


def _simple(value: Any) -> Any:
    """A value with its sums and integrals done, and its functions without a definition (`f(2)`) as variables of that name."""
    value = value.doit() if value.has(*_BOUND) else value
    functions = value.atoms(AppliedUndef)
    return (
        value.xreplace({call: sympy.Symbol(str(call).replace(" ", "")) for call in functions}) if functions else value
    )
