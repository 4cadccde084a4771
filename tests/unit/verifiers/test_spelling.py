import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.verifiers.spelling import is_same_text, is_words, latex_spelling, number_in_base, plain_spelling, same_signs


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
    ("plain", "signs"),
    [
        (r"\dfrac{1}{2}", r"\frac12"),
        (r"x \geq 5", r"x\ge5"),
        ("x >= 5", r"x\ge5"),
        ("1 2", "1 2"),
        ("1 000", "1000"),
        ("x ^ {2}", "x^2"),
        (r"\sqrt{23}", r"\sqrt{23}"),
    ],
)
def test_one_sign_for_each_meaning(plain, signs):
    assert same_signs(plain) == signs


def test_a_number_in_another_base_keeps_its_digits():
    assert number_in_base("204_{5}") == number_in_base("$204_5$") == ("204", 5)
    assert number_in_base("x_5") is None


@given(st.text(alphabet="\\{}$()[]^_ 0123456789,.%abextfracsqrtboxed√−½=<|", max_size=60))
def test_no_text_raises(text):
    plain_spelling(text)
    latex_spelling(text)
    is_same_text(text, text + "x")
    same_signs(text)
