from __future__ import annotations

import pytest

from agon.verifiers.assertions import compile_tests, hooks, shown


def run(code, **names):
    told = []
    namespace = {**names, **hooks(lambda: told.append("passed"), told.append)}
    exec(compile_tests(code), namespace)
    return told


def test_every_assertion_that_is_reached_is_counted():
    assert run("for x in range(3):\n    assert x < 3, 'message'\nassert 1 == 1.0") == ["passed"] * 4


def test_an_equality_tells_both_sides():
    assert run("assert f == 5", f=4) == ["expected 5, got 4"]


def test_any_other_condition_tells_its_source():
    assert run("assert abs(f) < 2", f=4) == ["this does not hold: abs(f) < 2"]
    assert run("assert 1 < f < 3", f=4) == ["this does not hold: 1 < f < 3"]


def test_a_flag_of_evalplus_tells_what_it_stands_for():
    code = "def assertion(out, exp, atol):\n    exact_match = out == exp\n    assert exact_match\nassertion(f, 5, 0)"
    assert run(code, f=4) == ["expected 5, got 4"]


def test_an_error_inside_an_assertion_is_raised_as_it_is():
    with pytest.raises(TypeError):
        run("assert len(f) == 2", f=4)


def test_a_long_or_unprintable_value_is_shown_in_brief():
    assert len(shown(list(range(10_000)))) < 100
    assert len(shown("x" * 10_000)) < 100
    assert shown(10**5000) == "a value of type int, too large to be written"
