import pytest

from agon.verifiers.names import can_be_one_equation, do_names_agree


@pytest.mark.parametrize(
    ("wanted", "found", "agree"),
    [
        ("x", "x", True),
        ("x", "", True),
        ("x", "y", False),
        ("f(n)", "f(m)", True),
        ("f(n)", "g(n)", False),
        ("A", r"\text{Area}", True),
        ("AB", "BA", True),
        ("AB", "BC", False),
        (r"\angle ABC", r"\angle CBA", True),
        (r"\angle ABC", r"\angle ACB", False),
        ("(x,y)", "(y,x)", False),
        ("(x,y)", "(a,b)", True),
        ("maximum", "the maximum value", True),
        ("maximum", "minimum", False),
    ],
)
def test_two_names_are_the_same_thing_or_another(wanted, found, agree):
    assert do_names_agree(wanted, found) is agree
    assert do_names_agree(found, wanted) is agree


def test_an_equation_may_be_solved_for_another_variable_but_not_for_another_segment():
    assert can_be_one_equation("x", "y")
    assert not can_be_one_equation("AB", "BC")
