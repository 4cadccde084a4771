from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.numerals import Number, only_number, read_number, rounding_error, same_number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", "42"),
        ("42.", "42"),
        ("-7", "-7"),
        ("+7", "7"),
        ("\u22123", "-3"),
        ("\uff12", "2"),
        ("\u00bd", "1/2"),
        ("3\u00bd", "7/2"),
        ("007", "7"),
        (".4", "2/5"),
        ("1000.0", "1000"),
        ("3.50", "7/2"),
        # thousands groups, in every spelling
        ("1,234", "1234"),
        ("-8,192", "-8192"),
        ("12,345,678", "12345678"),
        (r"1\,234.5", "2469/2"),
        ("1{,}234", "1234"),
        (r"11,\! 111,\! 111,\! 100", "11111111100"),
        ("1\u202f234", "1234"),
        # decorations
        ("$1,000.99", "100099/100"),
        (r"\$3.50", "7/2"),
        ("-$5", "-5"),
        ("$9$", "9"),
        (r"\( 9 \)", "9"),
        ("**131**", "131"),
        (r"\text{42}", "42"),
        (r"\mathbf{\text{42}}", "42"),
        (r"45^\circ", "45"),
        ("90\u00b0", "90"),
        # fractions, mixed numbers, powers of ten
        ("-1/2", "-1/2"),
        ("1/-2", "-1/2"),
        (r"\frac{10}{9}", "10/9"),
        (r"-\dfrac{1}{2}", "-1/2"),
        (r"\frac{-1}{2}", "-1/2"),
        (r"\frac12", "1/2"),
        (r"\frac 1 2", "1/2"),
        (r"918\frac{1}{2}", "1837/2"),
        ("3 1/2", "7/2"),
        ("1e3", "1000"),
        (r"1.5 \times 10^{3}", "1500"),
        ("1.5\u00d710^3", "1500"),
        ("10^{-3}", "1/1000"),
    ],
)
def test_spellings_of_a_number_are_read_exactly(text, value):
    number = read_number(text)
    assert number is not None
    assert number.value == Fraction(value)
    assert not number.is_percent


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "0,1",
        "1,23",
        "0,111",
        "3,11,33",
        "32, 349",
        "(1,2)",
        "1:00",
        "10\u00b2",
        "2x",
        "1/0",
        r"\frac{1}{0}",
        "1 234",
        "1 000",
        "3.14.15",
        "1e9999",
        "\u0661",
        "5 cm",
        "1_000",
        "inf",
        "nan",
        "1" * 3000,
        r"\frac{1}{",
        "2^{3}",
        "-",
    ],
)
def test_what_is_not_one_plain_number_is_not_guessed(text):
    assert read_number(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("18 dollars", "18"),
        ("the total is 42.", "42"),
        ("5cm", "5"),
        ("5 m^2", "5"),
        ("17th day", "17"),
        ("3 1/2 hours", "7/2"),
        ("x = 5", "5"),
        ("12+25+25 = 62", "62"),
        (r"19/3 \approx 6.33", "19/3"),
        (r"so $\frac{1}{2}$ of it", "1/2"),
        ("42 because geometry proves it", "42"),
        # two numbers, or part of a formula
        ("maybe 3, 5, 7 or 9", None),
        ("42 because 6*7", None),
        ("256+37", None),
        ("3:2", None),
        ("2x", None),
        ("a-5", None),
        (r"4\sqrt{3}", None),
        (r"4\sqrt(3)", None),
        (r"\frac{34}{16}+\frac{\sqrt{1358}}{16}", None),
        ("AZYUK2A", None),
        ("17", "17"),
    ],
)
def test_words_around_one_number_are_allowed_and_formulas_are_not(text, value):
    number = only_number(text)
    assert (number and str(number.value)) == value


@pytest.mark.parametrize(
    ("gold", "answer", "is_same"),
    [
        ("1/2", "0.5", True),
        ("0.0000001", "0.0000002", False),
        ("1/1208925819614629174706176", "1/604462909807314587353088", False),
        ("100000000001000000000", "100000000000000000000", False),
        ("5", "5.001", False),
        ("28%", "28%", True),
        ("28%", "28", True),
        ("0.335", "33.5%", True),
        ("33.5%", "0.335", True),
        ("25", "25%", True),
        ("0.5", "0.5%", False),
        # a long decimal stands for the endless fraction that rounds to it, a short one does not
        ("1/12", "0.083333333333", True),
        ("1/12", "0.0833", False),
        ("1/3", "0.33", False),
        ("0.123456789", "0.12345679", False),
        ("0.0833333333333", "1/12", True),
    ],
)
def test_equality_is_exact(gold, answer, is_same):
    first, second = read_number(gold), read_number(answer)
    assert first is not None
    assert second is not None
    assert same_number(first, second) is is_same


@given(st.integers(-(10**30), 10**30))
def test_an_integer_with_separators_is_itself(value):
    number = read_number(f"{value:,}")
    assert number == Number(Fraction(value))


@given(st.fractions(max_denominator=10**6))
def test_a_fraction_in_latex_is_itself(value):
    sign = "-" if value < 0 else ""
    number = read_number(rf"{sign}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}")
    assert number is not None
    assert number.value == value


@given(st.text(alphabet="0123456789.,-+/ \\frac{}^%$e*x=×½", max_size=30))
def test_no_text_raises(text):
    read_number(text)
    only_number(text)


@pytest.mark.parametrize(
    "text",
    [
        "5!",
        "5 !",
        "negative 5",
        "minus 5",
        "at least 5",
        "more than 5",
        "up to 5",
        "twice 5",
        "half of 5",
        "the square root of 5",
        "log 5",
        "5 factorial",
        "5 squared",
        "5 halves",
        "a multiple of 5",
        "never 5",
        "5 is not the answer",
        "not: 5",
        "one of 5",
        "out of 5",
        "before 5",
        "5m",
        "5 dozen",
    ],
)
def test_a_word_or_sign_that_changes_a_number_leaves_none(text):
    assert only_number(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a total of 5 apples", 5),
        ("the least common multiple is 5", 5),
        ("5 million dollars", 5_000_000),
        ("1.5 thousand", 1500),
    ],
)
def test_a_word_that_describes_a_number_leaves_it_as_it_is(text, value):
    number = only_number(text)
    assert number is not None
    assert number.value == value


@pytest.mark.parametrize(
    ("rounded", "digits", "error"),
    [
        ("0.66666667", 8, "5e-9"),
        ("1.41421356", 9, "5e-9"),
        ("0.6666666666666666", 16, "1e-16"),
        ("123456.78", 8, "5e-3"),
    ],
)
def test_a_rounded_number_is_off_by_half_a_unit_in_its_last_place_and_a_double_by_one(rounded, digits, error):
    assert rounding_error(Fraction(rounded), digits) == Fraction(error)
