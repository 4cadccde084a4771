"""Properties of extraction and comparison that hold for any text. Compared in processes that can be killed, as in a run."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agon.answers import extract_answer
from agon.config import VerifierSettings
from agon.verifiers.foreign import stated_answer
from agon.verifiers.math import MathChecker

CHECKER = MathChecker(VerifierSettings(timeout_s=3.0, workers=2))
many, few = settings(max_examples=60, deadline=None), settings(max_examples=20, deadline=None)


@pytest.fixture(scope="module", autouse=True)
def _close_the_processes():
    yield
    CHECKER.close()


def outcome(gold, answer):
    return CHECKER.check([(gold, answer)])[0].outcome


def outcomes(pairs):
    return [verdict.outcome for verdict in CHECKER.check(pairs)]


TOKENS = [
    r"\frac",
    r"\sqrt",
    r"\text",
    r"\left(",
    r"\right)",
    r"\begin{pmatrix}",
    r"\end{pmatrix}",
    r"\cup",
    r"\infty",
    r"\pi",
    r"\pm",
    r"\le",
    r"\in",
    r"\{",
    r"\}",
    r"\\",
    r"\%",
    r"\circ",
    r"\mathrm",
    r"\sin",
    r"\ln",
    r"{",
    r"}",
    r"(",
    r")",
    r"[",
    r"]",
    r",",
    r";",
    r":",
    r".",
    r"=",
    r"<",
    r">",
    r"+",
    r"-",
    r"*",
    r"/",
    r"^",
    r"_",
    r"|",
    r"&",
    r"$",
    r"$$",
    r"!",
    r"~",
    r"and",
    r"or",
    r"for",
    r"all",
    r"where",
    r"is",
    r"0",
    r"1",
    r"2",
    r"3",
    r"12",
    r"1,000",
    r"0.5",
    r"x",
    r"y",
    r"e",
    r"i",
    r"n",
    r"k",
    r"C",
    r"cm",
    r"percent",
    r"√",
    r"½",
    r"−",
    r"×",
    r"²",
    r"３",
    r"②",
    r"__import__",
    r"eval",
    r"lambda",
    r"import",
    r"os",
]
MESS = st.lists(st.sampled_from([*TOKENS, " ", "\n"]), max_size=14).map("".join)
# Text that has no mark of its own: a box or a block before the answer may be joined to it, or hide it.
PROSE = st.lists(st.sampled_from([*TOKENS, "so", "the answer is 7", "$7$", "\\", "####", " ", "\n"]), max_size=12).map(
    "".join
)

integers = st.integers(-(10**9), 10**9)
fractions = st.fractions(min_value=-1000, max_value=1000, max_denominator=997)
FORMULAS = st.recursive(
    st.sampled_from(["x", "y", "2", "3", r"\pi", r"\sqrt{2}", "e"]),
    lambda inner: st.tuples(inner, st.sampled_from([" + ", " - ", r" \cdot "]), inner).map(
        lambda three: f"({''.join(three)})"
    ),
    max_leaves=4,
)
VALUES = st.one_of(
    integers.map(str), fractions.map(lambda value: rf"\frac{{{value.numerator}}}{{{value.denominator}}}"), FORMULAS
)
LISTS = st.lists(VALUES, min_size=2, max_size=3)


@many
@given(MESS, MESS)
def test_no_text_makes_the_checker_fail(gold, answer):
    assert outcome(gold, answer) in ("correct", "wrong", "unparsed", "timeout")


@many
@given(MESS)
def test_a_text_that_is_not_blank_equals_itself_or_says_nothing(text):
    assert outcome(text, text) in (
        "correct",
        "unparsed",
        "wrong" if not text.strip("{}$.,;*!~\\ \n()[]") else "correct",
    )


@many
@given(PROSE, VALUES, st.sampled_from(["boxed", "tags"]))
def test_text_before_the_answer_never_changes_what_is_read(before, answer, style):
    marked = rf"\boxed{{{answer}}}" if style == "boxed" else f"<answer>{answer}</answer>"
    assert extract_answer(f"{before}\n{marked}", style) == extract_answer(marked, style)
    assert stated_answer(f"{before}\n{marked}") == extract_answer(marked, style)


@many
@given(MESS)
def test_an_answer_put_back_into_its_mark_is_found_again(text):
    answer = extract_answer(rf"\boxed{{{text}}}", "boxed")
    if answer is not None:
        assert extract_answer(rf"\boxed{{{answer}}}", "boxed") == answer
    tagged = extract_answer(f"<answer>{text}</answer>", "tags")
    if tagged is not None:
        assert extract_answer(f"<answer>{tagged}</answer>", "tags") == tagged


@few
@given(st.one_of(VALUES, LISTS.map(", ".join)), st.one_of(VALUES, LISTS.map(", ".join)))
def test_numbers_formulas_and_lists_are_compared_both_ways_alike(first, second):
    one, other = outcomes([(first, second), (second, first)])
    assert (one == "correct") == (other == "correct")


@few
@given(LISTS, st.randoms(use_true_random=False))
def test_the_order_of_a_list_is_free_and_a_value_left_out_is_missed(values, rng):
    shuffled = list(values)
    rng.shuffle(shuffled)
    assert outcome(", ".join(values), r" \text{ and } ".join(shuffled)) == "correct"
    assert outcome(", ".join([*values, "123456789012"]), ", ".join(values)) == "wrong"
    assert outcome(", ".join(values), ", ".join([*values, "123456789012"])) == "wrong"


def spellings(value):
    """A fraction as people write it."""
    sign, top, bottom = "-" if value < 0 else "", abs(value.numerator), value.denominator
    yield rf"{sign}\frac{{{top}}}{{{bottom}}}"
    yield rf"$ {sign} \dfrac{{{top}}}{{{bottom}}} $."
    yield rf"\text{{{sign}{top}/{bottom}}}"
    yield rf"{sign.replace('-', '−')}\frac{{{3 * top}}}{{{3 * bottom}}}"
    yield rf"x = {sign}\frac{{{top}}}{{{bottom}}}"
    yield rf"\left( {sign}\frac{{{2 * top}}}{{{bottom}}} \right) \div 2"
    if bottom == 1:
        yield f"{sign}{top:,}"
        yield rf"\mathbf{{{sign}{top}.0}}"
        yield "".join(chr(0xFF10 + int(digit)) if digit.isdigit() else digit for digit in f"{sign}{top}")


@many
@given(st.one_of(integers.map(Fraction), fractions))
def test_a_number_equals_itself_in_every_spelling(value):
    written = list(spellings(value))
    pairs = [(written[0], other) for other in written] + [(other, written[0]) for other in written]
    assert list(zip(pairs, outcomes(pairs), strict=True)) == [(pair, "correct") for pair in pairs]


@many
@given(st.one_of(integers.map(Fraction), fractions), st.integers(1, 60), st.sampled_from([1, -1]))
def test_a_number_that_is_close_is_another(value, digits, sign):
    near = value + Fraction(sign, 10**digits)
    pairs = [(first, second) for first in spellings(value) for second in spellings(near)]
    assert set(outcomes(pairs)) == {"wrong"}


@few
@given(FORMULAS, st.integers(1, 20))
def test_a_formula_that_is_close_is_another(formula, digits):
    assert outcome(formula, rf"{formula} \cdot 1") == "correct"
    assert outcome(formula, rf"{formula} + 10^{{-{digits}}}") == "wrong"
