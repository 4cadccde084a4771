import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.verifiers.spelling import (
    are_other_units,
    is_same_text,
    is_words,
    latex_spelling,
    number_in_base,
    plain_spelling,
    split_unit,
    without_name,
)


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("$x<3$", "x<3"),
        (r"\boxed{\boxed{42}}", "42"),
        ("\u22123", "-3"),
        ("\u221a2", r"\sqrt{2}"),
        ("sqrt(x+(1))", r"\sqrt{x+(1)}"),
        ("-1 + sqrt(3)", r"-1 + \sqrt{3}"),
        ("2*pi", r"2*\pi"),
        ("1e-7", r"1 \cdot 10^{-7}"),
        # a comma separates inside brackets, and groups outside
        ("1,234", "1234"),
        ("(1,234)", "(1,234)"),
        ("1,000, 500", "1000, 500"),
        ("3,11,33", "3,11,33"),
        ("0,1", "0,1"),
        (r"11,\! 111,\! 100", "11111100"),
        ("28 pct", r"28\%"),
        (r"\frac{1}{2}\text{ percent}", r"\frac{1}{2}\%"),
        (r"\frac{a}b", r"\frac{a}{b}"),
        (r"\left( 1, 2 \right)", "( 1, 2 )"),
        (r"\{x \mid 0 < x < 1\}", "0 < x < 1"),
        ("The answer is $9$.", "9"),
        ("maybe $3$ or $7$", "maybe 3 or 7"),
        (r"\$15,\!000", "15000"),
    ],
)
def test_one_spelling_for_many(text, latex):
    assert " ".join(latex_spelling(text).split()) == latex


@pytest.mark.parametrize(
    ("gold", "answer", "is_same"),
    [
        (r"\text{Evelyn}", "evelyn", True),
        ("E", "(E)", True),
        (r"\text{(E)}", "E.", True),
        ("E", "A and E", False),
        ("x", "X", False),
        (r"\frac{\pi}{2}", r"$ \frac{ \pi }{2} $.", True),
        ("", "", False),
        ("no", "No", True),
        ("odd", "oddd", False),
    ],
)
def test_answers_written_alike(gold, answer, is_same):
    assert is_same_text(gold, answer) is is_same


@pytest.mark.parametrize(
    ("text", "are_words"),
    [("Evelyn", True), ("(B)", True), ("no", True), (r"\text{ab}", True), ("ab", False), ("x", False), ("3 cm", False)],
)
def test_words_are_told_from_formulas(text, are_words):
    assert is_words(text) is are_words


@pytest.mark.parametrize(
    ("text", "formula", "unit"),
    [
        (r"5\text{ cm}", "5", "cm"),
        (r"3\sqrt{13} \mathrm{m}^2", r"3\sqrt{13}", "m2"),
        ("72 degrees", "72", "degrees"),
        (r"12\text{ cm}^{2}", "12", "cm2"),
        (r"2 \text{ or } 5", r"2 \text{ or } 5", ""),
        ("x + 5", "x + 5", ""),
    ],
)
def test_units_are_split_off(text, formula, unit):
    assert split_unit(text) == (formula, unit)


@pytest.mark.parametrize(
    ("first", "second", "differ"),
    [
        ("cm", "m", True),
        ("cm", "centimeters", False),
        ("cm", "cm2", True),
        ("square cm", "cm2", False),
        ("mph", "miles per hour", False),
        ("apples", "pears", False),
        ("", "cm", False),
    ],
)
def test_only_known_units_can_differ(first, second, differ):
    assert are_other_units(first, second) is differ


def test_names_and_bases():
    assert without_name(r"I_{\max} = 5") == "5"
    assert without_name("f(x) = x+1") == "x+1"
    assert without_name("2x = 4") is None
    assert without_name("a = b = c") is None
    assert number_in_base("204_{5}") == number_in_base("$204_5$") == ("204", 5)
    assert number_in_base("x_5") is None


@given(st.text(alphabet="\\{}$()[]^_ 0123456789,.%abextfracsqrtboxed√−½=<|", max_size=60))
def test_no_text_raises(text):
    plain_spelling(text)
    latex_spelling(text)
    is_same_text(text, text + "x")
    split_unit(text)
    without_name(text)


@pytest.mark.parametrize("piece", ["(", r"\(", "sqrt(", r"\text{", "1,", " ", r"\frac{", "$", "a", r"\ ", "√("])
def test_the_longest_texts_are_read_quickly(piece):
    text = (piece * 2000)[:2000]
    start = time.process_time()
    latex_spelling(text)
    is_same_text(text, "1")
    split_unit(text)
    without_name(text)
    assert time.process_time() - start < 0.5
