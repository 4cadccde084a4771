import sympy
from sympy import I, exp, log, sqrt, symbols

from agon.verifiers.points import have_branches, points

x, y, z, n = symbols("x y z n")


def reach(first, second):
    return max(abs(value) for point in points(["x"], first, second) for value in point.values())


def test_only_what_is_made_of_pieces_is_compared_far_from_zero():
    assert reach(abs(x - 10), 10 - x) > 1_000
    assert reach(sympy.floor(x), x) > 1_000
    assert reach(x**2, x) < 10
    assert reach(abs(x) * 2**x, x) < 10  # a tower at 30,000 would fill the memory


def test_the_far_points_are_no_whole_numbers_and_of_both_signs():
    far = [point["x"] for point in points(["x"], abs(x), x) if abs(point["x"]) > 10]
    assert any(value > 0 for value in far)
    assert any(value < 0 for value in far)
    assert not any(value.is_integer for value in far)


def test_z_is_complex_where_its_size_is_taken_and_it_is_no_third_coordinate():
    assert any(not point["z"].is_real for point in points(["z"], abs(z) ** 2, z**2))
    assert all(point["z"].is_real for point in points(["z"], z**2, z))
    assert all(point["z"].is_real for point in points(["x", "z"], abs(z) + x, z))


def test_powers_of_minus_one_are_compared_at_more_whole_numbers():
    whole = [point for point in points(["n"], (-1) ** n, sympy.Integer(-1)) if point["n"].is_integer]
    assert {int(point["n"]) % 4 for point in whole} == {0, 1, 2, 3}


def test_roots_and_logarithms_have_branches():
    assert have_branches(sqrt(x), x)
    assert have_branches(x, log(x))
    assert not have_branches(exp(2 * I * x), sqrt(2) * x)
