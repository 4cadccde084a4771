"""Exact numbers too large to write out, decided by their remainders modulo large primes. Runs in a worker process only.

Two rational (or Gaussian) numbers whose remainders differ modulo one prime are different. Those that agree modulo three primes of 61 bits
are the same: no answer is written to fool these primes. What else stands in a formula (pi, a root, a letter) takes part as an unknown, so
that equal remainders still prove equality and other ones prove nothing.
"""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import sympy

# 2^61 less a little, each 1 more than a multiple of 4: there -1 is a square, and i is its root.
_PRIMES: tuple[int, ...] = (2305843009213693921, 2305843009213693693, 2305843009213693669)
_MAX_FACTORIAL = 300_000
_MAX_BITS = 4_096
_LARGE = 1_000


class _Unknown(Exception):
    """The remainder is not defined, or cannot be had in a short time."""


def is_exact(value: Any) -> bool:
    """Tell whether a number is made of rational numbers and i by + - * /, whole powers and factorials."""
    if isinstance(value, sympy.Rational) or value is sympy.I:
        return True
    if isinstance(value, sympy.Pow):
        return is_exact(value.base) and is_exact(value.exp) and not value.exp.has(sympy.I) and _is_whole(value.exp)
    if isinstance(value, sympy.Add | sympy.Mul | sympy.UnevaluatedExpr | sympy.factorial | sympy.binomial):
        return all(is_exact(part) for part in value.args)
    return False


def has_large_power(value: Any) -> bool:
    """Tell whether an exponent or a factorial is so large that digits may not show a difference."""
    return any(
        (isinstance(node, sympy.Pow) and not node.exp.free_symbols and _is_large(node.exp))
        or (isinstance(node, sympy.factorial | sympy.binomial) and not node.free_symbols and _is_large(node.args[0]))
        for node in sympy.preorder_traversal(value)
    )


def have_same_remainders(first: Any, second: Any) -> bool | None:
    """Tell whether two formulas agree modulo each prime; None where a remainder cannot be had."""
    try:
        return all(_remainder(first, prime) == _remainder(second, prime) for prime in _PRIMES)
    except (_Unknown, RecursionError):
        return None


def _is_large(value: Any) -> bool:
    number = _small_integer(value)
    if number is None and not is_exact(value):
        return bool(value.is_finite and abs(value.evalf(15)) > _LARGE)
    if number is None:
        return not value.is_Rational
    return abs(number) > _LARGE


def _is_whole(exponent: Any) -> bool:
    """Whether an exponent is a whole number, as far as its form tells: of positive whole numbers, with a sign at most."""
    if isinstance(exponent, sympy.Integer):
        return True
    if isinstance(exponent, sympy.Add | sympy.Mul | sympy.UnevaluatedExpr | sympy.factorial):
        return all(_is_whole(part) for part in exponent.args)
    return isinstance(exponent, sympy.Pow) and _is_whole(exponent.base) and _sign(exponent.exp) > 0


def _remainder(value: Any, prime: int) -> int:
    match value:
        case sympy.Rational():
            return int(value.p) * _inverse(int(value.q), prime) % prime
        case sympy.Add():
            return sum(_remainder(part, prime) for part in value.args) % prime
        case sympy.Mul():
            product = 1
            for part in value.args:
                product = product * _remainder(part, prime) % prime
            return product
        case sympy.UnevaluatedExpr():
            return _remainder(value.args[0], prime)
        case sympy.factorial() | sympy.binomial() if not value.free_symbols:
            return _factorials(value, prime)
        case sympy.Pow() if _is_whole(value.exp):
            base = _remainder(value.base, prime)
            if base == 0:
                raise _Unknown
            return pow(base, _whole_remainder(value.exp, prime - 1), prime)
        case _ if value is sympy.I:
            return _root_of_minus_one(prime)
        case _:
            # always the same for the same part
            return random.Random(f"{sympy.srepr(value)} {prime}").randrange(2, prime)


def _inverse(number: int, prime: int) -> int:
    if number % prime == 0:
        raise _Unknown
    return pow(number, -1, prime)


def _factorials(value: Any, prime: int) -> int:
    whole = [_small_integer(part) for part in value.args]
    if any(number is None or not 0 <= number <= _MAX_FACTORIAL for number in whole):
        raise _Unknown
    counts = [number for number in whole if number is not None]
    if isinstance(value, sympy.factorial):
        return _factorial(counts[0], prime)
    total, chosen = counts
    if chosen > total:
        return 0
    below = _factorial(chosen, prime) * _factorial(total - chosen, prime) % prime
    return _factorial(total, prime) * _inverse(below, prime) % prime


@lru_cache(maxsize=64)
def _factorial(number: int, prime: int) -> int:
    product = 1
    for factor in range(2, number + 1):
        product = product * factor % prime
    return product


def _large_remainder(exponent: Any, modulus: int) -> int:
    """A number with the same power: the exponent itself where it is small, else its remainder with the modulus added on.

    Euler's theorem holds for any base once the exponent is at least the number of bits of the modulus.
    """
    number = _small_integer(exponent)
    if number is not None:
        return number
    return _whole_remainder(exponent, modulus) + modulus


def _whole_remainder(value: Any, modulus: int) -> int:
    if modulus == 1:
        return 0
    match value:
        case sympy.Integer():
            return int(value) % modulus
        case sympy.Add():
            return sum(_whole_remainder(part, modulus) for part in value.args) % modulus
        case sympy.Mul():
            product = 1
            for part in value.args:
                product = product * _whole_remainder(part, modulus) % modulus
            return product
        case sympy.UnevaluatedExpr():
            return _whole_remainder(value.args[0], modulus)
        case sympy.factorial():
            number = _small_integer(value.args[0])
            if number is None or not 0 <= number <= _MAX_FACTORIAL:
                raise _Unknown
            return _factorial(number, modulus)
        case sympy.Pow() if _sign(value.exp) > 0:
            power = _large_remainder(value.exp, _totient(modulus))
            return pow(_whole_remainder(value.base, modulus), power, modulus)
        case _:
            raise _Unknown


@lru_cache(maxsize=256)
def _totient(number: int) -> int:
    return int(sympy.totient(number))


@lru_cache(maxsize=8)
def _root_of_minus_one(prime: int) -> int:
    base = next(base for base in range(2, 100) if pow(base, (prime - 1) // 2, prime) == prime - 1)
    return pow(base, (prime - 1) // 4, prime)


def _sign(value: Any) -> int:
    """The sign of a whole number that may be too large to write out; 0 for none, and where its form does not tell."""
    number = _small_integer(value)
    if number is not None:
        return (number > 0) - (number < 0)
    if isinstance(value, sympy.Mul | sympy.UnevaluatedExpr):
        sign = 1
        for part in value.args:
            sign *= _sign(part)
        return sign
    if isinstance(value, sympy.Add):
        signs = {_sign(part) for part in value.args if _small_integer(part) is None}
        return signs.pop() if len(signs) == 1 else 0
    if isinstance(value, sympy.factorial):
        return 1
    return 1 if isinstance(value, sympy.Pow) and _sign(value.base) > 0 else 0


def _small_integer(value: Any) -> int | None:
    """A whole number of at most some thousand bits; None for any other."""
    if isinstance(value, sympy.Integer):
        return int(value)
    if isinstance(value, sympy.UnevaluatedExpr):
        return _small_integer(value.args[0])
    if isinstance(value, sympy.Add | sympy.Mul):
        parts = [_small_integer(part) for part in value.args]
        whole = [part for part in parts if part is not None]
        if len(whole) < len(parts) or sum(part.bit_length() for part in whole) > _MAX_BITS:
            return None
        total = sum(whole)
        if isinstance(value, sympy.Mul):
            total = 1
            for part in whole:
                total *= part
        return total
    if isinstance(value, sympy.factorial):
        number = _small_integer(value.args[0])
        return None if number is None or not 0 <= number <= 500 else int(sympy.factorial(number))
    if isinstance(value, sympy.Pow):
        base, power = _small_integer(value.base), _small_integer(value.exp)
        if base is None or power is None or power < 0 or base.bit_length() * power > _MAX_BITS:
            return None
        return int(base**power)
    return None
