import pytest
import sympy

from agon.verifiers.notation import says_that_matrices_commute, with_symbols


def read(text):
    return sympy.Integer(text) if text.strip().isdigit() else sympy.Symbol(text.strip())


@pytest.mark.parametrize(
    ("latex", "written"),
    [
        ("f'(x)", "f_{prime}(x)"),
        (r"h^{\prime\prime}(b)", "h_{primeprime}(b)"),
        (r"\omega_{L}'", r"\omega_{Lprime}"),
        ("f^{-1}(x)", "f_{inverse}(x)"),
        ("f^{(3)}(x)", "f_{powerorder3}(x)"),
        ("x^{-1}(x+1)", "x^{-1}(x+1)"),
        (r"1.2\overline{34}", r"\frac{1222}{990}"),
        (r"\log_e 2", r"\ln  2"),
        (r"\gcd(12,18)", r"\gcd(12,18)"),
        ("x^2", "x^2"),
    ],
)
def test_notation_is_written_so_that_the_grammar_keeps_it(latex, written):
    assert with_symbols(latex, read) == (written, {})


@pytest.mark.parametrize(
    ("latex", "meaning"),
    [
        ("A^T", "A^T"),
        (r"A^\top A", "A^TA"),
        ("P^{-1}AP", "P^-1AP"),
        (r"\vec a\times\vec b", r"\veca\times\vecb"),
        ("g*f", "f*g"),
        ("09:24", "9:24"),
        (r"\gcd(b,a)", "gcd(a, b)"),
        ("E[X]", "E(X)"),
    ],
)
def test_notation_with_a_meaning_of_its_own_is_a_symbol(latex, meaning):
    _, meanings = with_symbols(latex, read)
    assert [str(value) for value in meanings.values()] == [meaning]


def test_an_equation_that_only_changes_the_order_is_about_matrices():
    assert says_that_matrices_commute("AB = BA")
    assert not says_that_matrices_commute("AB = AB")
    assert not says_that_matrices_commute("AB = CD")
